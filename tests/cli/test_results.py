"""What `dplangevin claims` and `exhibits` say of a checkout, and what `--help` says."""

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dplangevin.cli import app, results
from dplangevin.papers.claims import tally

CLAIMS = """id,title,paper,fact,kind,verdict,cause,ours,low,high,asked_low,asked_high,unit,published,where,exhibit
a,Half of it,p1,f,paper,holds in part,stand-in,0.5,,inf,-inf,1,,half,Table 1,x; y
b,More,p1,f,reading,fails,,,,,,,,more,"Figure 2, left",x
c,Better,p2,g,extension,holds,,2,1,3,0,inf,points,,Section 3,
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of two exhibits, of which one is made, and a folder within."""
    (tmp_path / "results/exhibits/x").mkdir(parents=True)
    (tmp_path / "results/exhibits/x/x.png").touch()
    (tmp_path / "results/claims.csv").write_text(CLAIMS)
    (tmp_path / "conf/exhibit").mkdir(parents=True)
    for name in "xy":
        (tmp_path / f"conf/exhibit/{name}.yaml").write_text(f"title: What {name} shows\n")
    (tmp_path / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep/er")
    return tmp_path


def printed(*words: str) -> list[str]:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 0, done.stderr
    assert all(len(line) <= 80 or " " not in line for line in done.stdout.splitlines())  # a path is whole
    return done.stdout.splitlines()


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> list[tally.Claim]:
    monkeypatch.chdir(ROOT)
    return tally.read(ROOT / "results/claims.csv")


def test_verdicts_are_counted_by_kind_and_exactly(committed: list[tally.Claim]) -> None:
    lines = printed("claims")
    for kind, name in results.KINDS.items():
        (start,) = (i for i, line in enumerate(lines) if line.lower() == name.lower())
        rows = [row for row in committed if row["kind"] == kind]
        end = next(i for i, line in enumerate(lines) if i > start and line.startswith("all "))
        table = lines[start + 2 : end + 1]
        verdicts = [line.rstrip("0123456789 ") for line in table]
        assert verdicts == [*tally.ordered(row["verdict"] for row in rows), "all"]
        for verdict, line in zip(verdicts, table, strict=True):
            own = [row for row in rows if verdict in (row["verdict"], "all")]
            papers = Counter(row["paper"] for row in own)
            counts = [papers[paper] for paper in ("wang2015", "li2019", "ryffel2022")]
            facts = len({row["fact"] for row in own})
            assert [int(word) for word in line.split()[-5:]] == [*counts, len(own), facts]


@pytest.mark.parametrize(
    ("words", "chosen", "kinds"),
    [
        (["claims"], {"verdict": "fails"}, 2),  # questions of ours that fail only if they are asked for
        (["claims", "--verdict", "stand-in"], {"cause": "stand-in"}, 3),
        (["claims", "--paper", "li2019", "--verdict", "holds"], {"verdict": "holds", "paper": "li2019"}, 3),
    ],
)
def test_what_fails_is_listed_and_others_if_asked_for(
    words: list[str], chosen: dict[str, str], kinds: int, committed: list[tally.Claim]
) -> None:
    lines, ids = printed(*words), {row["id"]: row for row in committed}
    listed = [id for line in lines if (id := line.strip().partition(":")[0]) in ids]
    rows = [row for row in committed if chosen.items() <= row.items()]
    asked = [row for kind in [*results.KINDS][:kinds] for row in rows if row["kind"] == kind]
    assert sorted(listed) == sorted(row["id"] for row in asked)
    assert asked
    assert all(ids[name]["title"] in lines for name in listed)


def test_one_claim_is_shown_whole(committed: list[tally.Claim]) -> None:
    """With its result in one sentence, as the page says it."""
    said = {
        "wang2015_rows_adult": "result Exact computation gives 32,561 records",
        "ryffel2022_tab1_resnet18": "lies between 5.77 (exact for one pair of data sets) and 1320 (proof)",
        "ryffel2022_theorem_3_1_attacked": "Attacks (95 % confidence) show 1.99 to 13.1 times the bound",
        "wang2015_dp_sgld_like_outpert_adult": "With the default choice it is not shown.",
    }
    rows = {row["id"]: row for row in committed}
    for id, words in said.items():
        row, lines = rows[id], printed("claims", id)
        assert lines[:2] == [row["title"], tally.word(row)]
        text = " ".join(" ".join(lines).split())
        assert words in text
        assert " ".join(row["reason"].split()) in text
        assert " ".join(row["statement"].split()) in text


def test_exhibits_are_listed_with_title_and_marks(checkout: Path) -> None:
    lines = printed("exhibits")
    where = lines.index("What x shows")
    assert lines[where + 1].split() == ["x", "paper", "◐1,", "reading", "✗1"]
    assert any("make exhibit ID=y" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--paper p", "there are p1, p2"),
        ("--verdict hold", "did you mean holds"),
        ("B", "no claim with id 'B'"),
    ],
)
def test_wrong_choices_name_the_right_ones(checkout: Path, words: str, said: str) -> None:
    done = CliRunner().invoke(app, ["claims", *words.split()])
    assert (done.exit_code, said in done.stderr) == (2, True)


@pytest.mark.parametrize("command", ["claims", "exhibits"])
def test_outside_a_checkout_it_says_where_results_are_looked_for(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"results/ in {tmp_path} and the folders above it" in CliRunner().invoke(app, [command]).stderr
