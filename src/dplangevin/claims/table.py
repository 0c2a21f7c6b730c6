"""The claims table: expand the entries of `conf/claim/`, test each against the runs, one row per claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
from hydra.utils import instantiate

from dplangevin.claims import NoRows, not_testable

COLUMNS = [
    "id", "paper", "where", "statement", "published", "ours", "low", "high", "verdict", "reason", "evidence",
]  # fmt: skip
SAID = ("where", "statement", "published")  # the paper's side of a claim

Analyses = Mapping[str, pd.DataFrame]


def expand(paper: Mapping[str, Any], analyses: Analyses = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """The claims of one paper: id, paper, where, statement, published, evidence, test, and for some the analysis or the
    training experiment.

    An entry with `over: {dataset: exhibit}` becomes one claim per data set (id ending in its name, evidence the
    exhibit's CSV, and that of the sensitivity exhibit if the test looks there); with `audited: true` each has a twin at
    equal audited epsilon (id ending in _audited). An entry with `analysis: id` is tested on the rows of that analysis,
    which are its evidence; one with `training: id` on the runs of that training experiment. With `each: true` an
    analysis becomes one claim for every row of it that names this paper, with the id, where, statement and published of
    the row.
    """
    for name, entry in paper["claims"].items():
        if "analysis" in entry:
            yield from _on_analysis(paper["paper"], name, entry, analyses)
            continue
        said = {key: entry[key] for key in SAID}
        if "training" in entry:
            of = entry["training"]
            base = {"paper": paper["paper"], "training": of, "evidence": f"results/exhibits/{of}/{of}.csv"}
            yield {"id": f"{paper['paper']}_{name}", **base, **said, "test": entry["test"]}
            continue
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


def _on_analysis(
    paper: str, name: str, entry: Mapping[str, Any], analyses: Analyses
) -> Iterator[dict[str, Any]]:
    analysis = entry["analysis"]
    base = {"paper": paper, "analysis": analysis, "evidence": f"results/exhibits/{analysis}/{analysis}.csv"}
    if not entry.get("each", False):
        said = {key: entry[key] for key in SAID}
        yield {"id": f"{paper}_{name}", **base, **said, "test": entry["test"]}
        return
    if analysis not in analyses:
        return
    frame = analyses[analysis]
    for row in frame[frame.paper.eq(paper)].to_dict("records"):
        said = {key: row[key] for key in SAID}
        yield {"id": f"{paper}_{row['id']}", **base, **said, "test": {**entry["test"], "id": row["id"]}}


def evaluate(
    paper: Mapping[str, Any],
    runs: pd.DataFrame,
    analyses: Analyses = MappingProxyType({}),
    training: Analyses = MappingProxyType({}),
) -> pd.DataFrame:
    """The claims table of one paper (columns COLUMNS): every claim of `conf/claim` against the run frame, or against
    the rows of its analysis or training experiment; not testable where these lack what the claim is about, as at a
    smaller scale. `paper["training"]`: experiment -> what to say where its runs are missing, None if they must be
    there.
    """
    rows = []
    for claim in expand(paper, analyses):
        test = instantiate(claim["test"], _partial_=True, _convert_="all")
        try:
            found = test(_frame(claim, paper, runs, analyses, training))
        except NoRows as error:
            found = not_testable(str(error))
        rows.append({**claim, **found})
    return pd.DataFrame(rows, columns=COLUMNS)


def _frame(
    claim: Mapping[str, Any],
    paper: Mapping[str, Any],
    runs: pd.DataFrame,
    analyses: Analyses,
    training: Analyses,
) -> pd.DataFrame:
    """What a claim is tested on. NoRows for a training experiment that was not run."""
    if "analysis" in claim:
        return analyses[claim["analysis"]]
    if "training" not in claim:
        return runs
    name = claim["training"]
    if name not in training:
        raise NoRows(paper["training"][name] or f"no run of {name} was read")
    return training[name]
