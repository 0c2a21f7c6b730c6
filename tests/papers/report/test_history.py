"""The history of verdicts: the committed file ends with today's verdicts, and what is refused."""

from pathlib import Path

import pandas as pd
import pytest

from dplangevin.papers.report import history
from dplangevin.papers.report.history import Change

ROOT = Path(__file__).parents[3]
FIRST = Change("2026-11-21", "", "contradicted", "The claim was added.")
SECOND = Change("2026-11-22", "contradicted", "not reproduced", "Rule: a reading contradicts nothing.")


def saved(folder: Path, *rows: tuple[str, ...]) -> Path:
    path = folder / "history.csv"
    pd.DataFrame(rows, columns=list(history.COLUMNS)).to_csv(path, index=False)
    return path


def test_the_committed_history_ends_with_the_verdicts_of_today() -> None:
    """Else: python pipelines/report.py history --why "REASON."."""
    table = pd.read_csv(ROOT / "results/claims.csv", keep_default_na=False)
    last = {name: changes[-1].after for name, changes in history.read(ROOT / history.PATH).items()}
    assert last == dict(zip(table.id, table.verdict, strict=True))


def test_a_reason_that_names_a_claim_names_one_that_exists() -> None:
    entries = history.read(ROOT / history.PATH)
    words = {
        word.strip(".,") for changes in entries.values() for change in changes for word in change.why.split()
    }
    named = {word for word in words if word.startswith(("wang2015_", "li2019_", "ryffel2022_"))}
    assert named <= set(entries)


def test_an_update_appends_what_is_new_and_forgets_claims_that_are_gone(tmp_path: Path) -> None:
    today = {"a": "not reproduced", "c": "holds"}
    found = history.updated({"a": [FIRST], "b": [FIRST]}, today, "2026-11-22", "Because.")
    assert found == {
        "a": [FIRST, Change("2026-11-22", "contradicted", "not reproduced", "Because.")],
        "c": [Change("2026-11-22", "", "holds", "Because.")],
    }
    assert history.updated(found, today, "2026-11-23", "") == found  # nothing is new
    (tmp_path / "history.csv").write_bytes(history.csv_bytes(found))
    assert history.read(tmp_path / "history.csv") == found
    for date, why in (("2026-11-22", " "), ("2026-11-20", "Because.")):
        with pytest.raises(ValueError, match="a: it "):
            history.updated({"a": [FIRST]}, today, date, why)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (SECOND._replace(before="reproduced"), "the entry before it ends with 'contradicted'"),
        (SECOND._replace(before=""), "the entry before it ends with 'contradicted'"),
        (SECOND._replace(after="refuted"), "'refuted' is no other verdict"),
        (SECOND._replace(after="contradicted"), "'contradicted' is no other verdict"),
        (SECOND._replace(why=""), "it has no reason"),
        (SECOND._replace(date="22 November"), "is no date"),
        (SECOND._replace(date="2026-11-20"), "older than the entry before it"),
    ],
)
def test_an_entry_that_cannot_follow_is_refused(change: Change, error: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"line 3, a: .*{error}"):
        history.read(saved(tmp_path, ("a", *FIRST), ("a", *change)))


def test_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "history.csv").write_text("id,when\n")
    with pytest.raises(ValueError, match="the columns are id, date, from, to, why"):
        history.read(tmp_path / "history.csv")
