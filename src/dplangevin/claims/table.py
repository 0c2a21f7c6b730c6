"""The claims table: expand the entries of `conf/claim/`, test each against the runs, one row per claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd
from hydra.utils import instantiate

from dplangevin.claims.verdicts import NoRows, not_testable, settled, with_power

COLUMNS = [
    "id", "paper", "fact", "kind", "setting", "where", "statement", "published", "unit", "ours", "low", "high",
    "asked_low", "asked_high", "measure", "verdict", "reason", "exhibit", "evidence",
]  # fmt: skip
# the paper's side of a claim, and how ours is to be judged
QUOTED = ("fact", "kind", "setting", "where", "statement", "published", "unit")
JUDGED = ("measure", "tuning", "capped", "outside")  # where an entry says so; see `verdicts.settled`
RUNS, ANALYSES = "results/runs", "results/analyses"

Frames = Mapping[str, pd.DataFrame]


def expand(paper: Mapping[str, Any], analyses: Frames = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """The claims of one paper: id, paper, the keys QUOTED and JUDGED, exhibit, evidence, test, and for some the
    analysis or the runs that they are about.

    exhibit: what shows them, names joined by "; ". evidence: the files that the numbers are recomputed from.
    An entry with `over: {dataset: exhibit}` becomes one claim per data set (id ending in its name); with `audited:
    true` each has a twin at equal tight epsilon (id ending in _audited), a question of ours. An entry with
    `analysis: id` is tested on the rows of that analysis; one with `runs: [name, ...]` on those of the paper's
    runs, its exhibit being that of the first one's experiment if it names no other; any other on all runs of the
    paper. With `each: {id: {...}}` an analysis becomes one claim for every row of it that names this paper, with
    the id, where, statement and published of the row and the keys of that id; null leaves one out. An entry with
    `rows: {name: {...}}` becomes one claim per name (id ending in it), in which the row's keys, and those of its
    test, stand in for the entry's.
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
            if entry.get("audited", False):
                twin = {**base, **more, "kind": "extension", "test": {**test, "axis": "audited"}}
                yield {"id": f"{key}_audited", **twin}


def _keys(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in QUOTED} | {key: entry[key] for key in JUDGED if key in entry}


def _folders(paper: Mapping[str, Any], test: Mapping[str, Any]) -> str:
    """The results that a test compares: on one data set, those of its experiment and of the settings that it tries;
    else all that the paper's claims are about."""
    if "dataset" not in test:
        return "; ".join(f"{RUNS}/{name}" for name in paper["runs"])
    names = [test.get("experiment", paper["paper"]), test.get("sensitivity", "")]
    return "; ".join(f"{RUNS}/{name}/{test['dataset']}" for name in names if name)


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
        judged = {key: claim[key] for key in ("kind", "setting", *JUDGED) if key in claim}
        try:
            rows.append({**claim, **with_power(settled(verdict, **judged), claim["unit"])})
        except ValueError as error:
            raise ValueError(f"{claim['id']}: {error}") from error
    return pd.DataFrame(rows, columns=COLUMNS)


def _named(names: Sequence[str], paper: Mapping[str, Any], runs: Frames) -> pd.DataFrame:
    """The runs that there are of these. NoRows where there is none."""
    frames = [runs[name] for name in names if name in runs]
    if not frames:
        raise NoRows(paper["runs"][names[0]] or f"no run of {', '.join(names)} was read")
    return pd.concat(frames, ignore_index=True)
