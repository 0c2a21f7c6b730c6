"""What `dplangevin claims`, `exhibits` and `experiments` say of a checkout."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dplangevin.cli import EXAMPLES, app, results
from dplangevin.papers.claims import tally

CLAIMS = """id,paper,fact,kind,verdict,ours,low,high,asked_low,asked_high,unit,published,where,exhibit
a,p1,f,paper,reproduced,0.5,,inf,-inf,1,,half,Table 1,x; y
b,p1,f,reading,contradicted,,,,,,,more,"Figure 2, left",x
c,p2,g,extension,holds,2,1,3,0,inf,points,,Section 3,
"""
ROOT = Path(__file__).parents[2]
EXP_SHOW = Path(__file__).with_name("exp_show.json")  # cut from what DVC 3.67 prints


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of two exhibits, of which one is made, and a folder within."""
    (tmp_path / "results/exhibits/x").mkdir(parents=True)
    (tmp_path / "results/exhibits/x/x.png").touch()
    (tmp_path / "results/claims.csv").write_text(CLAIMS)
    (tmp_path / "conf/pipeline").mkdir(parents=True)
    default = "exhibits: {x: results/runs/a, y: results/runs/b}\n"
    (tmp_path / "conf/pipeline/default.yaml").write_text(default)
    (tmp_path / "conf/pipeline/large.yaml").write_text("exhibits: {z: results/runs/c}\n")
    (tmp_path / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep/er")
    return tmp_path


def document(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_claims_are_chosen_and_counted(checkout: Path) -> None:
    everything = document("claims")
    assert everything["counts"] == {"p1": {"reproduced": 1, "contradicted": 1}, "p2": {"holds": 1}}
    assert everything["kinds"] == {
        "paper": {"reproduced": 1}, "reading": {"contradicted": 1}, "extension": {"holds": 1}
    }  # fmt: skip
    first = everything["claims"][0]
    assert (first["ours"], first["low"], first["high"]) == (0.5, None, "inf")
    assert (first["asked_low"], first["asked_high"]) == ("-inf", 1)
    for words, ids in (
        (("--paper", "p1"), "ab"),
        (("--verdict", "holds"), "c"),
        (("--exhibit", "y"), "a"),
        (("--kind", "reading"), "b"),
        (("--paper", "p1", "--exhibit", "x", "--verdict", "contradicted"), "b"),
    ):
        assert "".join(claim["id"] for claim in document("claims", *words)["claims"]) == ids


def test_a_claim_is_a_line_in_a_pipe(checkout: Path) -> None:
    lines = CliRunner().invoke(app, ["claims", "--paper", "p1"]).stdout.splitlines()
    assert any(line.split() == ["a", "reproduced", "0.5", "half", "Table", "1"] for line in lines)


def test_the_numbers_of_the_readme_are_those_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = " ".join((ROOT / "README.md").read_text().split())
    (command,) = re.findall(r"`(dplangevin claims [^`]*)`", text)
    table = CliRunner().invoke(app, command.split()[1:]).stdout.partition("\n\n")[0]
    rows = {line.partition("  ")[0]: line.split() for line in table.splitlines()[2:]}
    in_all = {verdict: int(words[-2]) for verdict, words in rows.items()}
    facts = rows["contradicted"][-1]
    assert (
        f"{in_all['all']} claims in the papers' own words (the contradicted ones restate {facts} facts)"
        in text
    )
    words = (
        "reproduced",
        "reproduced under stated choices",
        "not reproduced",
        "contradicted",
        "not testable",
    )
    for cells in (words, [str(in_all[word]) for word in words]):
        assert f"| {' | '.join(cells)} |" in text


def test_exhibits_have_a_state_and_verdicts(checkout: Path) -> None:
    found = {each["exhibit"]: each for each in document("exhibits")}
    assert (found["x"]["state"], found["x"]["files"]) == ("made", ["x.png"])
    assert found["x"]["claims"] == {"reproduced": 1, "contradicted": 1}
    assert found["y"]["state"] == "missing: results/runs/b is missing: `make exhibit ID=y`"
    assert "SET=pipeline=large" in found["z"]["state"]
    (checkout / "results/runs/b").mkdir(parents=True)
    assert "dvc repro render@y" in document("exhibits")[1]["state"]


def test_counts_by_exhibit(checkout: Path) -> None:
    counts = tally.by_exhibit(tally.read(checkout / "results/claims.csv"))
    assert counts == {"x": {"reproduced": 1, "contradicted": 1}, "y": {"reproduced": 1}}
    assert tally.read(checkout / "none.csv") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["claims", "--paper", "p3"], "there are p1, p2"),
        (["claims", "--verdict", "hold"], "did you mean holds"),
        (
            ["claims", "--kind", "papers"],
            "--kind 'papers': no such claim; did you mean paper?; there are extension,",
        ),
        (["claims", "--exhibit", "w"], "there are x, y"),
        (["claims", "--results", "nowhere"], "no claims.csv in nowhere"),
    ],
)
def test_wrong_choices_name_the_right_ones(checkout: Path, words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize("command", ["claims", "exhibits"])
def test_outside_a_checkout_it_says_where_results_are_looked_for(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [command])
    assert done.exit_code == 2
    assert f"results/ in {tmp_path} and the folders above it" in done.stderr


def test_experiments_say_what_was_changed_and_what_came_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "exp_show", lambda: json.loads(EXP_SHOW.read_text()))
    radius, queued = document("experiments")
    assert (radius["name"], radius["changed"]) == ("radius3", {"method.ops.radius": 3.0})
    (outcome,) = radius["outcomes"]  # DP-SGD's numbers are those of the commit
    assert (outcome["method"], outcome["run"], outcome["budgets"]) == ("ops", "compare-abalone", [0.1, 1, 10])
    assert outcome["accuracy"][:2] == pytest.approx([0.73182, 0.75431], abs=1e-5)
    assert outcome["epsilon_proven"][:2] == pytest.approx([0.10622, 1.07732], abs=1e-5)
    assert (queued["state"], queued["outcomes"], set(queued["changed"])) == (
        "queued", [], {"delta", "method.ops.radius"},
    )  # fmt: skip
    text = CliRunner().invoke(app, ["experiments"]).stdout
    assert "ops on compare-abalone: 0.732 0.754" in text
    assert "queued" in text


SCORES = "run,variant,scaling,epsilon,seed,metric,value\n"


def test_an_experiment_without_numbers_in_short_says_which_results_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a sweep, whose points are rows of results."""
    monkeypatch.chdir(tmp_path)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "--quiet"], check=True)
    path = tmp_path / "results/runs/sweep/abalone/scores.csv"
    path.parent.mkdir(parents=True)
    revisions = []
    for points in ({1: 0.5, 2: 0.6, 5: 0.7}, {1: 0.5, 2: 0.4, 10: 0.8, 20: 0.9}):
        rows = [
            f"ops,radius={radius},unit,1.0,{seed},accuracy,{value}\n"
            for radius, value in points.items()
            for seed in (0, 1)
        ]
        path.write_text(SCORES + "".join(rows))
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", "all"], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        revisions.append(head.stdout.strip())
    names = (
        "results/runs/sweep/abalone",
        "results/exhibits/sweep",
        "results/runs/other/adult",
        "data/manifest/code.json",
    )
    hashes = ({name: {"hash": f"{name} {number}"} for name in names} for number in (0, 1))
    first, second = ({**each, names[2]: {"hash": "the same"}} for each in hashes)
    params = {"params.yaml": {"data": {"experiment": {"sweep": {"vary": {"ops": {"radius": [1, 2]}}}}}}}
    data = {"outs": second, "params": params}
    shown = {
        "rev": revisions[0],
        "data": {"outs": first, "params": {}},
        "experiments": [{"name": "points", "revs": [{"rev": revisions[1], "data": data}]}],
    }
    monkeypatch.setattr(results, "exp_show", lambda: [shown])
    (found,) = document("experiments")
    assert found["outcomes"] == []
    assert found["results"] == [
        {"path": names[0], "new": ["ops radius=10 unit", "ops radius=20 unit"], "other": ["ops radius=2 unit"],
         "gone": ["ops radius=5 unit"]},
        {"path": names[1], "new": [], "other": [], "gone": []},
    ]  # fmt: skip
    text = CliRunner().invoke(app, ["experiments"]).stdout
    assert f"{names[0]} changed, points: 2 new, 1 with other numbers, 1 gone" in text
    assert f"{names[1]} changed" in text
    assert "no result changed" not in text
    second |= first
    assert "no result changed" in CliRunner().invoke(app, ["experiments"]).stdout


def test_what_dvc_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "dvc"
    script.write_text("#!/bin/sh\necho 'ERROR: you are not inside of a DVC repository' >&2\nexit 253\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    done = CliRunner().invoke(app, ["experiments"])
    assert done.exit_code == 2
    assert "you are not inside of a DVC repository" in done.stderr
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "not on PATH" in CliRunner().invoke(app, ["experiments"]).stderr


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_has_an_example(command: Any) -> None:
    done = CliRunner().invoke(app, [command.__name__, "--help"])
    assert done.exit_code == 0
    assert f"Example: dplangevin {command.__name__}" in " ".join(done.stdout.split())


def test_help_needs_neither_torch_nor_pandas() -> None:
    code = (
        "import sys\nfrom dplangevin.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0\n"
        "assert not {'torch', 'pandas', 'scipy', 'numpy', 'hydra'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
