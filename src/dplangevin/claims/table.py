"""The claims table: expand the entries of `conf/claim/`, test each against the runs, one row per claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd
from hydra.utils import instantiate

from dplangevin.claims.verdicts import NoRows, not_testable

COLUMNS = [
    "id", "paper", "where", "statement", "published", "ours", "low", "high", "verdict", "reason", "evidence",
]  # fmt: skip
QUOTED = ("where", "statement", "published")  # the paper's side of a claim

Frames = Mapping[str, pd.DataFrame]


def expand(paper: Mapping[str, Any], analyses: Frames = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """The claims of one paper: id, paper, where, statement, published, evidence, test, and for some the analysis or the
    runs that they are about.

    An entry with `over: {dataset: exhibit}` becomes one claim per data set (id ending in its name, evidence the
    exhibit's CSV, and that of the sensitivity exhibit if the test looks there); with `audited: true` each has a twin at
    equal audited epsilon (id ending in _audited). An entry with `analysis: id` is tested on the rows of that analysis,
    which are its evidence; one with `runs: [name, ...]` on those of the paper's runs, its evidence being the exhibit
    of the first one's experiment if it names no other; any other on all runs of the paper. With `each: true` an
    analysis becomes one claim for every row of it that names this paper, with the id, where, statement and published of
    the row. An entry with `rows: {name: {...}}` becomes one claim per name (id ending in it), in which the row's keys,
    and those of its test, stand in for the entry's.
    """
    for name, entry in _by_row(paper["claims"]):
        if "analysis" in entry:
            yield from _on_analysis(paper["paper"], name, entry, analyses)
            continue
        quote = {key: entry[key] for key in QUOTED}
        if "runs" in entry:
            evidence = entry.get("evidence") or _numbers(entry["runs"][0].partition("/")[0])
            base = {"paper": paper["paper"], "runs": entry["runs"], "evidence": evidence, **quote}
            yield {"id": f"{paper['paper']}_{name}", **base, "test": entry["test"]}
            continue
        for dataset, exhibit in entry.get("over", {"": ""}).items():
            exhibits = [exhibit, entry["test"].get("sensitivity")] if exhibit else []
            evidence = "; ".join(_numbers(of) for of in exhibits if of) or entry["evidence"]
            test = {**entry["test"], **({"dataset": dataset} if dataset else {})}
            key = "_".join([paper["paper"], name, *([dataset] if dataset else [])])
            base = {"paper": paper["paper"], **quote, "evidence": evidence}
            yield {"id": key, **base, "test": test}
            if entry.get("audited", False):
                yield {"id": f"{key}_audited", **base, "test": {**test, "axis": "audited"}}


def _numbers(exhibit: str) -> str:
    """The CSV of an exhibit."""
    return f"results/exhibits/{exhibit}/{exhibit}.csv"


def _by_row(claims: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
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
    analysis = entry["analysis"]
    base = {"paper": paper, "analysis": analysis, "evidence": _numbers(analysis)}
    if not entry.get("each", False):
        quote = {key: entry[key] for key in QUOTED}
        yield {"id": f"{paper}_{name}", **base, **quote, "test": entry["test"]}
        return
    if analysis not in analyses:
        return
    frame = analyses[analysis]
    for row in frame[frame.paper.eq(paper)].to_dict("records"):
        quote = {key: row[key] for key in QUOTED}
        yield {"id": f"{paper}_{row['id']}", **base, **quote, "test": {**entry["test"], "id": row["id"]}}


def evaluate(paper: Mapping[str, Any], runs: Frames, analyses: Frames = MappingProxyType({})) -> pd.DataFrame:
    """The claims table of one paper (columns COLUMNS): every claim of `conf/claim` against the runs that it names, or
    all, or against the rows of its analysis; not testable where these lack what the claim is about, as at a smaller
    scale. `runs` of the paper are name -> what to say where they are missing, None if they must be there.
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
        rows.append({**claim, **verdict})
    return pd.DataFrame(rows, columns=COLUMNS)


def _named(names: Sequence[str], paper: Mapping[str, Any], runs: Frames) -> pd.DataFrame:
    """The runs that there are of these. NoRows where there is none."""
    frames = [runs[name] for name in names if name in runs]
    if not frames:
        raise NoRows(paper["runs"][names[0]] or f"no run of {', '.join(names)} was read")
    return pd.concat(frames, ignore_index=True)
