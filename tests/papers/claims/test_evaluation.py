"""The committed table of claims: every row says what it is, names evidence that is there, and keeps the rule."""

import math
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from dplangevin.papers.claims.evaluation import COLUMNS
from dplangevin.reporting.read import read_claims

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return read_claims(ROOT / "results" / "claims.csv")


NOT_INSIDE = "shown absent", "too imprecise to tell"
# a number that stands for two, of which no range is asked
WITHOUT_RANGE = ["wang2015_proposition1"]


def inside(row: pd.Series, low: float, high: float) -> bool:
    """Whether low to high is in the range that is asked: a printed number by its digits, an interval strictly."""
    if row.asked_low == row.asked_high:
        digits = len(f"{row.asked_low:.12e}".partition("e")[0].rstrip("0").replace(".", "").strip("-")) - 1
        return all(f"{end:.{digits}e}" == f"{row.asked_low:.{digits}e}" for end in (low, high))
    if str(row.measure).startswith("interval") and math.isinf(row.asked_high):
        return low > row.asked_low
    room = 1e-9 * max(abs(low), abs(high))
    return row.asked_low - room <= low and high <= row.asked_high + room


def on_the_wrong_side(row: pd.Series) -> bool:
    """Whether a number of a row speaks against its verdict; what is open lies across, or its second word says why."""
    low, high = (row.ours if math.isnan(row[end]) else row[end] for end in ("low", "high"))
    low, high = (high if math.isnan(low) else low), (low if math.isnan(high) else high)
    if math.isnan(low) or math.isnan(row.asked_low):
        return False
    bounds = str(row.measure).endswith("to proof") and math.isnan(row.ours)
    if row.verdict in ("holds", "holds in part"):
        return not inside(row, *((high, high) if bounds else (low, high)))
    if row.verdict == "open":
        return pd.notna(row.measure) and inside(row, low, high) and row.cause in NOT_INSIDE
    if bounds or str(row.measure).startswith("interval"):
        return not (low >= row.asked_high if bounds else high <= row.asked_low or low >= row.asked_high)
    return inside(row, low, high)


def broken(table: pd.DataFrame) -> dict[str, list[str]]:
    """What is wrong with a table -> the ids of the rows; `test_claim_verdict` has the words of verdicts."""
    limits = table[["low", "high"]].notna()
    wrong: dict[str, pd.Series] = {
        "an interval without limits": table.measure.fillna("").str.startswith("interval")
        & ~limits.all(axis=1),
        "limits without a measure": table.measure.isna() & limits.any(axis=1),
        "half a range": table.asked_low.isna() ^ table.asked_high.isna(),
        "nothing asked": table.asked_low.isna() & table.ours.notna() & ~table.id.isin(WITHOUT_RANGE),
        "a range from high to low": table.asked_low.gt(table.asked_high),
        "on the wrong side of its verdict": table.apply(on_the_wrong_side, axis=1),
        "a value outside its limits": table.measure.fillna("").str.startswith("interval")
        & ~table.ours.between(table.low, table.high),
    }
    return {what: table.id[mask].tolist() for what, mask in wrong.items() if mask.any()}


def test_every_row_keeps_the_rule(table: pd.DataFrame) -> None:
    assert list(table.columns) == COLUMNS
    assert table.id.is_unique
    quoted = ["fact", "kind", "setting", "where", "statement", "published", "reason"]
    assert table[quoted].notna().all(axis=None)
    assert broken(table) == {}


def test_evidence_is_in_the_repository(table: pd.DataFrame) -> None:
    """Files that git keeps, or folders with such; claims on an experiment that could not be run have none."""
    listed = subprocess.run(
        ["git", "ls-files", "results", "data"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    kept = {*listed, *(parent.as_posix() for name in listed for parent in Path(name).parents)}
    assert table.evidence.notna().all()
    for row in table.itertuples():
        lacking = [name for name in str(row.evidence).split("; ") if name not in kept]
        assert not lacking or row.cause == "not testable", (row.id, lacking)


def test_exhibits_are_described(table: pd.DataFrame) -> None:
    known = {path.stem for path in (ROOT / "conf/exhibit").glob("*.yaml")}
    for row in table.dropna(subset=["exhibit"]).itertuples():
        assert set(str(row.exhibit).split("; ")) <= known, row.id
