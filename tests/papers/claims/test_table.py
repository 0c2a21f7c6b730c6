"""The committed table of claims: every row says what it is, names evidence that is there, and keeps the rule."""

import json
import math
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from dplangevin.papers.claims.table import COLUMNS
from dplangevin.papers.claims.verdicts import KINDS, MEASURES, SETTINGS
from dplangevin.papers.exhibits.read import read_claims

ROOT = Path(__file__).parents[3]
OF_PAPERS = {
    "reproduced",
    "reproduced under stated choices",
    "not reproduced",
    "contradicted",
    "not testable",
}
OF_EXTENSIONS = {"holds", "does not hold", "undecided", "not testable"}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return read_claims(ROOT / "results" / "claims.csv")


# a number that stands for two, of which no range is asked
WITHOUT_RANGE = ["wang2015_proposition1"]


def above(end: pd.Series) -> pd.Series:
    """A printed number is both ends of its range, and ours counts where it has the same digits."""
    return end + 0.01 * end.abs()


def below(end: pd.Series) -> pd.Series:
    return -above(-end)


def ids(rows: pd.DataFrame) -> list[str]:
    return rows.id.tolist()


def broken(table: pd.DataFrame) -> dict[str, list[str]]:
    """What is wrong with a table -> the ids of the rows."""
    measured = table.verdict.ne("not testable")
    limits = table[["low", "high"]].notna()
    refuted = table.verdict.isin(["contradicted", "does not hold"])
    extension = table.kind.eq("extension")
    wrong: dict[str, pd.Series] = {
        "id not unique": table.id.duplicated(),
        "no fact": table.fact.isna(),
        "unknown kind": ~table.kind.isin(KINDS),
        "unknown setting": ~table.setting.isin(SETTINGS),
        "unknown measure": ~table.measure.fillna("").isin(MEASURES),
        "no unit": table.unit.isna() & measured,
        "no reason": table.reason.isna(),
        "no words of the paper": table[["where", "statement", "published"]].isna().any(axis=1),
        "no such verdict": ~table.verdict.where(extension).isin(OF_EXTENSIONS)
        & ~table.verdict.where(~extension).isin(OF_PAPERS),
        "an interval without limits": table.measure.fillna("").str.startswith("interval")
        & ~limits.all(axis=1),
        "limits without a measure": table.measure.isna() & limits.any(axis=1),
        "refuted by a range or by one value": refuted & table.measure.fillna("range").eq("range"),
        "contradicted where it cannot be": table.verdict.eq("contradicted")
        & ~(table.kind.eq("paper") & table.setting.isin(["paper", "special case", "chosen"])),
        "a plain success that the paper's setting did not have": table.verdict.eq("reproduced")
        & ~table.setting.isin(["paper", "chosen"]),
        "half a range": table.asked_low.isna() ^ table.asked_high.isna(),
        "nothing asked": table.asked_low.isna() & table.ours.notna() & ~table.id.isin(WITHOUT_RANGE),
        "a range from high to low": table.asked_low.gt(table.asked_high),
        "reproduced outside of what was asked": table.verdict.isin(["reproduced", "holds"])
        & ~table.ours.fillna(table.high).between(below(table.asked_low), above(table.asked_high))
        & table.asked_low.notna(),
        "a value outside its limits": table.measure.fillna("").str.startswith("interval")
        & ~table.ours.between(table.low, table.high),
    }
    return {what: ids(table[mask]) for what, mask in wrong.items() if mask.any()}


def test_every_row_keeps_the_rule(table: pd.DataFrame) -> None:
    assert list(table.columns) == COLUMNS
    assert broken(table) == {}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"id": "b"}, "id not unique"),
        ({"fact": None}, "no fact"),
        ({"kind": "ours"}, "unknown kind"),
        ({"setting": "guessed"}, "unknown setting"),
        ({"measure": "spread"}, "unknown measure"),
        ({"unit": None}, "no unit"),
        ({"kind": "extension"}, "no such verdict"),
        ({"verdict": "undecided"}, "no such verdict"),
        ({"low": math.nan}, "an interval without limits"),
        ({"measure": None}, "limits without a measure"),
        ({"measure": "range"}, "refuted by a range or by one value"),
        ({"kind": "reading"}, "contradicted where it cannot be"),
        ({"setting": "stand-in"}, "contradicted where it cannot be"),
        ({"setting": "invented", "verdict": "reproduced"}, "a plain success that the paper's setting did not have"),
        ({"setting": "special case", "verdict": "reproduced"}, "a plain success that the paper's setting did not have"),
        ({"ours": 9.0}, "a value outside its limits"),
        ({"asked_low": math.nan}, "half a range"),
        ({"asked_low": math.nan, "asked_high": math.nan}, "nothing asked"),
        ({"asked_low": 2.0}, "a range from high to low"),
        ({"verdict": "reproduced", "asked_high": 0.05}, "reproduced outside of what was asked"),
        ({"verdict": "reproduced", "asked_low": 0.15}, "reproduced outside of what was asked"),
    ],
)  # fmt: skip
def test_a_row_that_breaks_the_rule_is_seen(change: dict[str, object], what: str) -> None:
    row = dict.fromkeys(COLUMNS, "x") | {
        "id": "a", "kind": "paper", "setting": "paper", "ours": 0.1, "low": 0.0, "high": 0.2, "measure": "interval",
        "asked_low": 0.0, "asked_high": 1.0, "verdict": "contradicted",
    }  # fmt: skip
    other = {**row, "id": "b"}
    assert broken(pd.DataFrame([row, other])) == {}
    assert what in broken(pd.DataFrame([{**row, **change}, other]))


def test_evidence_is_in_the_repository(table: pd.DataFrame) -> None:
    """Files that git keeps, or folders with such; claims on an experiment that could not be run have none."""
    listed = subprocess.run(
        ["git", "ls-files", "results", "data"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    kept = {*listed, *(parent.as_posix() for name in listed for parent in Path(name).parents)}
    assert table.evidence.notna().all()
    for row in table.itertuples():
        lacking = [name for name in str(row.evidence).split("; ") if name not in kept]
        assert not lacking or row.verdict == "not testable", (row.id, lacking)


def test_exhibits_are_described(table: pd.DataFrame) -> None:
    known = {path.stem for path in (ROOT / "conf/exhibit").glob("*.yaml")}
    for row in table.dropna(subset=["exhibit"]).itertuples():
        assert set(str(row.exhibit).split("; ")) <= known, row.id


def test_counts_are_those_of_the_manifest(table: pd.DataFrame) -> None:
    """Counts of prepared rows and features rest on data/manifest, which the row names."""
    counted = table[table.evidence.str.startswith("data/manifest/")]
    assert len(counted)
    for row in counted.itertuples():
        stated = json.loads((ROOT / str(row.evidence)).read_text())
        counts = {stated["rows"]["train"], sum(stated["rows"].values())}
        counts |= {
            math.prod([stated["features"]] if isinstance(stated["features"], int) else stated["features"])
        }
        assert row.ours in counts, row.id
