"""The claims table: `expand` turns entries of `conf/claim/` into claims, `evaluate` tests them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import pandas as pd
from hydra.utils import instantiate

from dplangevin.papers.claims.verdicts import NoRows, claim_verdict, not_testable
from dplangevin.papers.statistics import NoCommonRange
from dplangevin.reporting import read, words

COLUMNS = [
    "id", "title", "paper", "fact", "kind", "setting", "where", "statement", "published", "unit", "ours", "low", "high",
    "asked_low", "asked_high", "measure", "verdict", "cause", "reason", "exhibit", "evidence",
]  # fmt: skip
QUOTED = ("fact", "kind", "setting", "where", "statement", "published", "unit")  # keys that every entry has
LIMITED = ("cause", "limit")  # optional keys; see `verdicts.claim_verdict`

Entry = Mapping[str, Any]
Frames = Mapping[str, pd.DataFrame]


def expand(paper: Entry, analyses: Frames = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """Yield the claims of one paper, the content of one file of `conf/claim/`.

    - `rows: {name: {...}}` gives one claim for each name, which ends its id. Its keys, and those of its `test`, replace
      those of the entry. `{case}` in a title is the data set.
    - `analysis: id` tests on the rows of that analysis, `runs: [name, ...]` on those runs; else on all of the paper.
    - `analysis` with `each: {id: {...}}` gives one claim for every row of the analysis that names this paper. The row
      supplies id, where, statement and published. The keys under its id replace those of the entry; null: no claim.
    """
    for name, entry in paper["claims"].items():
        rows = entry.get("rows", {})
        if "each" in entry:
            frame = analyses.get(entry["analysis"], pd.DataFrame({"paper": []}))
            for row in frame[frame.paper.eq(paper["paper"])].to_dict("records"):
                own = entry["each"].get(row["id"], {})
                if own is not None:
                    quoted = {key: row[key] for key in QUOTED if key in row}
                    test = {**entry["test"], "id": row["id"]}
                    yield _claim(paper, row["id"], {**quoted, **entry, **own, "test": test})
        for row, own in rows.items():
            test = {**entry["test"], **own.get("test", {})}
            yield _claim(paper, f"{name}_{row}", {**entry, **own, "test": test})
        if "each" not in entry and not rows:
            yield _claim(paper, name, entry)


def _claim(paper: Entry, name: str, entry: Entry) -> dict[str, Any]:
    test, folders = entry["test"], entry.get("runs", paper.get("runs", ()))
    if "dataset" in test and "runs" not in entry:
        compared = test.get("experiment", paper["paper"]), test.get("sensitivity", "")
        folders = [f"{experiment}/{test['dataset']}" for experiment in compared if experiment]
    evidence = entry.get("evidence") or "; ".join(f"{read.RUNS}/{folder}" for folder in folders)
    if "analysis" in entry:
        evidence = f"{read.ANALYSES}/{entry['analysis']}.csv"
    exhibit = entry.get("exhibit") or entry.get("analysis") or entry.get("runs", [""])[0].partition("/")[0]
    if exhibit and test.get("sensitivity", exhibit) not in exhibit.split("; "):
        exhibit += f"; {test['sensitivity']}"
    case = entry.get("case") or words.features(test.get("dataset", ""))
    return {
        "id": f"{paper['paper']}_{name}",
        "title": entry["title"].format(case=case),
        "paper": paper["paper"],
        **{key: entry[key] for key in QUOTED},
        **{key: entry[key] for key in (*LIMITED, "analysis", "runs") if key in entry},
        "exhibit": exhibit,
        "evidence": evidence,
        "test": test,
    }


def evaluate(paper: Entry, runs: Frames, analyses: Frames = MappingProxyType({})) -> pd.DataFrame:
    """Return the claims table of one paper (columns COLUMNS), with one row for each claim.

    The `runs` of the paper map a name to the reason for "not testable" without these runs; null: they must exist.
    """
    rows = []
    together = cache(lambda *found: pd.concat([runs[name] for name in found], ignore_index=True))
    for claim in expand(paper, analyses):
        test = instantiate(claim["test"], _partial_=True, _convert_="all")
        try:
            if "analysis" in claim:
                frame = analyses[claim["analysis"]]
            else:
                names = claim.get("runs", [*runs])
                found = [name for name in names if name in runs]
                if names and not found:
                    raise NoRows(paper["runs"][names[0]] or f"no run of {', '.join(names)} was read")
                frame = together(*found) if found else pd.DataFrame()
                if "dataset" in claim["test"]:
                    frame = frame[frame.dataset.eq(claim["test"]["dataset"])]
            verdict = test(frame)
        except (NoRows, NoCommonRange) as error:
            verdict = not_testable(str(error))
        entry = {key: claim[key] for key in ("kind", "setting", *LIMITED) if key in claim}
        try:
            rows.append({**claim, **claim_verdict(verdict, **entry)})
        except ValueError as error:
            raise ValueError(f"{claim['id']}: {error}") from error
    return pd.DataFrame(rows, columns=COLUMNS)
