"""The claims table: expand the entries of `conf/claim/`, test each against the runs, one row per claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from hydra.utils import instantiate

COLUMNS = [
    "id", "paper", "where", "statement", "published", "ours", "low", "high", "verdict", "reason", "evidence",
]  # fmt: skip


def expand(paper: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The claims of one paper: id, paper, where, statement, published, evidence, test.

    An entry with `over: {dataset: exhibit}` becomes one claim per data set (id ending in its name, evidence the
    exhibit's CSV, and that of the sensitivity exhibit if the test looks there); with `audited: true` each has a twin at
    equal audited epsilon (id ending in _audited).
    """
    for name, entry in paper["claims"].items():
        said = {key: entry[key] for key in ("where", "statement", "published")}
        for dataset, exhibit in entry.get("over", {"": ""}).items():
            exhibits = [exhibit, entry["test"].get("sensitivity")] if exhibit else []
            paths = [f"results/exhibits/{name}/{name}.csv" for name in exhibits if name]
            evidence = "; ".join(paths) or entry["evidence"]
            test = {**entry["test"], **({"dataset": dataset} if dataset else {})}
            key = "_".join([paper["paper"], name, *([dataset] if dataset else [])])
            base = {"paper": paper["paper"], **said, "evidence": evidence}
            yield {"id": key, **base, "test": test}
            if entry.get("audited", False):
                yield {"id": f"{key}_audited", **base, "test": {**test, "axis": "audited"}}


def evaluate(paper: Mapping[str, Any], runs: pd.DataFrame) -> pd.DataFrame:
    """The claims table of one paper (columns COLUMNS): every claim of `conf/claim` against the run frame."""
    rows = []
    for claim in expand(paper):
        test = instantiate(claim["test"], _partial_=True, _convert_="all")
        rows.append({**claim, **test(runs)})
    return pd.DataFrame(rows, columns=COLUMNS)
