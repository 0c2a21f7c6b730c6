"""The claims table: expand the entries of `conf/claim/`, test each against the runs, one row per claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
from hydra.utils import instantiate

from dplangevin.claims.verdicts import NoRows, not_testable

COLUMNS = [
    "id", "paper", "where", "statement", "published", "ours", "low", "high", "verdict", "reason", "evidence",
]  # fmt: skip
QUOTED = ("where", "statement", "published")  # the paper's side of a claim
TRAINED = ("training", "heads", "finetune")  # kinds of runs with networks

Analyses = Mapping[str, pd.DataFrame]


def expand(paper: Mapping[str, Any], analyses: Analyses = MappingProxyType({})) -> Iterator[dict[str, Any]]:
    """The claims of one paper: id, paper, where, statement, published, evidence, test, and for some the analysis, the
    training experiment, the experiments on features (heads) or the fine-tuning runs.

    An entry with `over: {dataset: exhibit}` becomes one claim per data set (id ending in its name, evidence the
    exhibit's CSV, and that of the sensitivity exhibit if the test looks there); with `audited: true` each has a twin at
    equal audited epsilon (id ending in _audited). An entry with `analysis: id` is tested on the rows of that analysis,
    which are its evidence; one with `training: id` on the runs of that training experiment, one with `heads: [id, ...]`
    or `finetune: [run, ...]` on those that there are of these. With `each: true` an analysis becomes one claim for
    every row of it that names this paper, with the id, where, statement and published of the row. An entry with `rows:
    {name: {...}}` becomes one claim per name (id ending in it), in which the row's keys, and those of its test, stand
    in for the entry's.
    """
    for name, entry in _by_row(paper["claims"]):
        if "analysis" in entry:
            yield from _on_analysis(paper["paper"], name, entry, analyses)
            continue
        quote = {key: entry[key] for key in QUOTED}
        if kind := next((kind for kind in TRAINED if kind in entry), None):
            of = entry[kind]
            evidence = f"results/exhibits/{of}/{of}.csv" if kind == "training" else entry["evidence"]
            base = {"paper": paper["paper"], kind: of, "evidence": evidence, **quote}
            yield {"id": f"{paper['paper']}_{name}", **base, "test": entry["test"]}
            continue
        for dataset, exhibit in entry.get("over", {"": ""}).items():
            exhibits = [exhibit, entry["test"].get("sensitivity")] if exhibit else []
            paths = [f"results/exhibits/{of}/{of}.csv" for of in exhibits if of]
            evidence = "; ".join(paths) or entry["evidence"]
            test = {**entry["test"], **({"dataset": dataset} if dataset else {})}
            key = "_".join([paper["paper"], name, *([dataset] if dataset else [])])
            base = {"paper": paper["paper"], **quote, "evidence": evidence}
            yield {"id": key, **base, "test": test}
            if entry.get("audited", False):
                yield {"id": f"{key}_audited", **base, "test": {**test, "axis": "audited"}}


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
    paper: str, name: str, entry: Mapping[str, Any], analyses: Analyses
) -> Iterator[dict[str, Any]]:
    analysis = entry["analysis"]
    base = {"paper": paper, "analysis": analysis, "evidence": f"results/exhibits/{analysis}/{analysis}.csv"}
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


def evaluate(
    paper: Mapping[str, Any],
    runs: pd.DataFrame,
    analyses: Analyses = MappingProxyType({}),
    training: Analyses = MappingProxyType({}),
    heads: Analyses = MappingProxyType({}),
    finetune: Analyses = MappingProxyType({}),
) -> pd.DataFrame:
    """The claims table of one paper (columns COLUMNS): every claim of `conf/claim` against the run frame, or against
    the rows of its analysis, training experiment, experiments on features (heads) or fine-tuning runs; not testable
    where these lack what the claim is about, as at a smaller scale. `training`, `heads` and `finetune` of the paper are
    name -> what to say where its runs are missing, None if they must be there.
    """
    sources = dict(zip(TRAINED, (training, heads, finetune), strict=True))
    rows = []
    for claim in expand(paper, analyses):
        test = instantiate(claim["test"], _partial_=True, _convert_="all")
        try:
            verdict = test(_frame(claim, paper, runs, analyses, sources))
        except NoRows as error:
            verdict = not_testable(str(error))
        rows.append({**claim, **verdict})
    return pd.DataFrame(rows, columns=COLUMNS)


def _frame(
    claim: Mapping[str, Any],
    paper: Mapping[str, Any],
    runs: pd.DataFrame,
    analyses: Analyses,
    sources: Mapping[str, Analyses],
) -> pd.DataFrame:
    """What a claim is tested on. NoRows where nothing of it was run."""
    if "analysis" in claim:
        return analyses[claim["analysis"]]
    kind = next((name for name in sources if name in claim), None)
    if kind is None:
        return runs
    names = [claim[kind]] if isinstance(claim[kind], str) else list(claim[kind])
    frames = [sources[kind][name] for name in names if name in sources[kind]]
    if not frames:
        raise NoRows(paper[kind][names[0]] or f"no run of {', '.join(names)} was read")
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
