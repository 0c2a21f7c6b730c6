"""The claims table: each claim of `conf/claim/` is tested against the results and becomes one row.

`expand` turns the entries of a paper's file into claims. `evaluate` tests them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd
from hydra.utils import instantiate

from dplangevin.papers.claims.verdicts import NoRows, not_testable, settled, with_power

COLUMNS = [
    "id", "paper", "fact", "kind", "setting", "where", "statement", "published", "unit", "ours", "low", "high",
    "asked_low", "asked_high", "measure", "verdict", "reason", "exhibit", "evidence",
]  # fmt: skip
# Keys of an entry: what the paper says, and how the verdict of the test is adjusted.
QUOTED = ("fact", "kind", "setting", "where", "statement", "published", "unit")
JUDGED = ("measure", "tuning", "capped", "outside")  # optional keys of an entry; see `verdicts.settled`
RUNS, ANALYSES = "results/runs", "results/analyses"

Frames = Mapping[str, pd.DataFrame]


def expand(paper: Mapping[str, Any], analyses: Frames = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """Yield the claims of one paper.

    The keys of an entry decide how many claims it becomes and which rows its test reads:

    - `over: {dataset: exhibit}` gives one claim for each data set. Its id ends in the name of the data set.
    - `proven: true` adds to each claim a second one at equal proven ε. Its id ends in "_audited", and its
      kind is "extension", because the paper does not ask this question.
    - `analysis: id` tests the claim on the rows of that analysis.
    - `analysis` with `each: {id: {...}}` gives one claim for every row of the analysis that names this paper.
      The row supplies id, where, statement and published. The keys under its id replace those of the entry.
      An id that maps to null gives no claim.
    - `runs: [name, ...]` tests the claim on those runs. Its default exhibit is the experiment of the first
      run.
    - An entry with neither `analysis` nor `runs` is tested on all runs of the paper.
    - `rows: {name: {...}}` gives one claim for each name. Its id ends in that name. The row's keys, and the
      keys of its `test`, replace those of the entry.

    Parameters
    ----------
    paper : mapping
        The content of one file of `conf/claim/`.
    analyses : mapping of str to DataFrame
        The rows of each analysis by its id. Entries with `each` need them.

    Yields
    ------
    dict
        id, paper, test, the keys in QUOTED, and those in JUDGED that the entry has.
        exhibit: names of the exhibits that show the claim, joined by "; ".
        evidence: files that the numbers are recomputed from, joined by "; ".
        analysis or runs: what the claim is tested on, if the entry names it.
    """
    for name, entry in _by_row(paper["claims"]):
        if "analysis" in entry:
            yield from _on_analysis(paper["paper"], name, entry, analyses)
            continue
        base = {"paper": paper["paper"], **_keys(entry)}
        if "runs" in entry:
            shown = entry.get("exhibit") or entry["runs"][0].partition("/")[0]
            files = "; ".join(f"{RUNS}/{run}" for run in entry["runs"])
            more = {"runs": entry["runs"], "exhibit": shown, "evidence": files}
            yield {"id": f"{paper['paper']}_{name}", **base, **more, "test": entry["test"]}
            continue
        for dataset, exhibit in entry.get("over", {"": entry.get("exhibit", "")}).items():
            test = {**entry["test"], **({"dataset": dataset} if dataset else {})}
            names = [exhibit, test.get("sensitivity", "")] if exhibit else []
            files = entry.get("evidence") or _folders(paper, test)
            shown = dict.fromkeys(of for name in names for of in name.split("; ") if of)
            more = {"exhibit": "; ".join(shown), "evidence": files}
            key = "_".join([paper["paper"], name, *([dataset] if dataset else [])])
            yield {"id": key, **base, **more, "test": test}
            if entry.get("proven", False):
                twin = {**base, **more, "kind": "extension", "test": {**test, "axis": "proven"}}
                yield {"id": f"{key}_proven", **twin}


def _keys(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paper's side of an entry, and the keys that adjust its verdict."""
    return {key: entry[key] for key in QUOTED} | {key: entry[key] for key in JUDGED if key in entry}


def _folders(paper: Mapping[str, Any], test: Mapping[str, Any]) -> str:
    """Return the result folders that a test compares, joined by "; ".

    A test on one data set compares its experiment and its sensitivity run. Every other test has all runs of
    the paper's claims.
    """
    if "dataset" not in test:
        return "; ".join(f"{RUNS}/{name}" for name in paper["runs"])
    names = [test.get("experiment", paper["paper"]), test.get("sensitivity", "")]
    return "; ".join(f"{RUNS}/{name}/{test['dataset']}" for name in names if name)


def _by_row(claims: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and entry of each claim, with one claim for each of the entry's `rows`."""
    for name, entry in claims.items():
        if "rows" not in entry:
            yield name, entry
            continue
        shared = {key: value for key, value in entry.items() if key != "rows"}
        for row, own in entry["rows"].items():
            test = {**entry["test"], **own.get("test", {})}
            yield f"{name}_{row}", {**shared, **own, "test": test}


def _on_analysis(
    paper: str, name: str, entry: Mapping[str, Any], analyses: Frames
) -> Iterator[dict[str, Any]]:
    """Yield the claims of an entry that is tested on the rows of an analysis."""
    analysis = entry["analysis"]
    base = {"paper": paper, "analysis": analysis, "exhibit": entry.get("exhibit", analysis)}
    base["evidence"] = f"{ANALYSES}/{analysis}.csv"
    if "each" not in entry:
        yield {"id": f"{paper}_{name}", **base, **_keys(entry), "test": entry["test"]}
        return
    if analysis not in analyses:
        return
    frame = analyses[analysis]
    for _, row in frame[frame.paper.eq(paper)].iterrows():
        own = entry["each"].get(row["id"], {})
        if own is None:
            continue
        keys = _keys({**dict(row), **{key: value for key, value in entry.items() if key != "each"}, **own})
        yield {"id": f"{paper}_{row['id']}", **base, **keys, "test": {**entry["test"], "id": row["id"]}}


def evaluate(paper: Mapping[str, Any], runs: Frames, analyses: Frames = MappingProxyType({})) -> pd.DataFrame:
    """Return the claims table of one paper (columns COLUMNS), with one row for each claim.

    A claim is not testable where the runs or the analysis lack its subject, for example at a smaller scale.

    Parameters
    ----------
    paper : mapping
        The content of one file of `conf/claim/`. Its `runs` map a name to the reason for "not testable" if
        the runs are missing; null for runs that must exist.
    runs : mapping of str to DataFrame
        Runs by name. A claim is tested on the runs that it names, otherwise on all of them.
    analyses : mapping of str to DataFrame
        Rows of each analysis by its id.
    """
    everything = pd.concat([pd.DataFrame(), *runs.values()], ignore_index=True)
    rows = []
    for claim in expand(paper, analyses):
        test = instantiate(claim["test"], _partial_=True, _convert_="all")
        try:
            if "analysis" in claim:
                frame = analyses[claim["analysis"]]
            else:
                frame = _named(claim["runs"], paper, runs) if "runs" in claim else everything
            verdict = test(frame)
        except NoRows as error:
            verdict = not_testable(str(error))
        judged = {key: claim[key] for key in ("kind", "setting", *JUDGED) if key in claim}
        try:
            rows.append({**claim, **with_power(settled(verdict, **judged), claim["unit"])})
        except ValueError as error:
            raise ValueError(f"{claim['id']}: {error}") from error
    return pd.DataFrame(rows, columns=COLUMNS)


def _named(names: Sequence[str], paper: Mapping[str, Any], runs: Frames) -> pd.DataFrame:
    """Return the rows of those runs that exist; raise NoRows if none exists."""
    frames = [runs[name] for name in names if name in runs]
    if not frames:
        raise NoRows(paper["runs"][names[0]] or f"no run of {', '.join(names)} was read")
    return pd.concat(frames, ignore_index=True)
