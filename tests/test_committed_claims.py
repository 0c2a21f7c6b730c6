"""Every committed claim on a made-up frame, and what the claims table makes of conf/claim."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_rows import fact, rows
from omegaconf import OmegaConf

from dplangevin.claims.table import COLUMNS, evaluate, expand
from dplangevin.exhibits.files import read_analysis

CONF = Path(__file__).parents[1] / "conf" / "claim"
RESULTS = Path(__file__).parents[1] / "results"
FAMILY = ["accuracy", "ess", "r_hat", "mean_distance", "covariance_distance", "log_loss", "brier", "ece"]
WORDS = {"reproduced", "reproduced under stated choices", "not reproduced", "contradicted", "not testable"}


def committed(path: Path) -> dict[str, Any]:
    paper = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(paper, dict)
    return paper  # type: ignore[return-value]


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_committed_claim_evaluates(path: Path) -> None:
    paper = committed(path)
    frames = [pd.DataFrame()]
    for i, name in enumerate(paper.get("runs", [])):
        experiment, dataset, method = name.split("/")
        means = [0.6 + 0.01 * (i % 3), 0.7, 0.8]
        variants, metrics = [""], ["accuracy"]
        if experiment.endswith("sensitivity"):
            variants = ["a=1", "a=2"]
        if experiment.endswith("family"):
            variants, metrics = ["temperature=printed", "temperature=proper"], FAMILY
        for variant, metric in itertools.product(variants, metrics):
            other = {"experiment": experiment, "dataset": dataset, "variant": variant, "metric": metric}
            frame = rows(method, means, **other)
            if method in ("nonprivate", "sgld"):
                frame = frame[frame.epsilon.eq(1.0)].assign(epsilon=np.inf, epsilon_tight=np.inf)
            frames.append(frame)
    for dataset, metric in itertools.product(paper.get("data", []), ["features", "rows_train", "rows"]):
        frames.append(fact(metric, 9.0).assign(dataset=dataset))
    analyses = {name: read_analysis(name, RESULTS / "analyses") for name in paper.get("analyses", [])}
    table = evaluate(paper, pd.concat(frames, ignore_index=True), analyses)
    assert list(table.columns) == COLUMNS
    assert table.id.is_unique
    assert set(table.verdict) <= WORDS
    assert table.drop(columns=["ours", "low", "high"]).notna().all(axis=None)
    assert table.reason.ne("").all()
    assert not table.reason.str.startswith("no row of the analysis").any()


def test_expand_names_data_sets_and_twins() -> None:
    entry = {"where": "w", "statement": "s", "published": "p", "test": {"_target_": "f"}, "audited": True}
    paper = {
        "paper": "p",
        "claims": {"x": {**entry, "over": {"adult": "fig"}}, "y": {**entry, "evidence": "e"}},
    }
    found = {claim["id"]: claim for claim in expand(paper)}
    assert list(found) == ["p_x_adult", "p_x_adult_audited", "p_y", "p_y_audited"]
    assert found["p_x_adult"]["test"] == {"_target_": "f", "dataset": "adult"}
    assert found["p_x_adult_audited"]["test"]["axis"] == "audited"
    assert found["p_x_adult"]["evidence"] == "results/exhibits/fig/fig.csv"
    assert found["p_y"]["evidence"] == "e"


def test_claims_on_an_analysis_get_its_rows() -> None:
    said = {"where": "w", "statement": "s", "published": "p"}
    frame = pd.DataFrame([{"paper": "p", "id": "a", **said}, {"paper": "other", "id": "b", **said}])
    entry = {"analysis": "priced", "test": {"_target_": "f"}}
    paper = {"paper": "p", "claims": {"x": {**entry, **said}, "all": {**entry, "each": True}}}
    found = {claim["id"]: claim for claim in expand(paper, {"priced": frame})}
    assert list(found) == ["p_x", "p_a"]
    assert found["p_a"]["test"] == {"_target_": "f", "id": "a"}
    assert found["p_x"]["evidence"] == "results/exhibits/priced/priced.csv"


def test_evidence_is_an_exhibit_that_exists() -> None:
    exhibits = {path.stem for path in (CONF.parent / "exhibit").glob("*.yaml")}
    for path in CONF.glob("*.yaml"):
        for claim in expand(committed(path)):
            evidence = Path(claim["evidence"])
            assert evidence.parts[0] == "data" or evidence.stem in exhibits, claim["id"]


def test_counts_are_the_published_ones() -> None:
    printed = pd.read_csv(CONF.parents[1] / "data" / "published" / "wang2015.csv")
    for claim in expand(committed(CONF / "wang2015.yaml")):
        test = claim["test"]
        if test["_target_"].endswith("numbers.count"):
            quantity = test["metric"].removesuffix("_train")
            row = printed[printed.dataset.eq(test["dataset"]) & printed.quantity.eq(quantity)]
            assert row.value.tolist() == [test["published"]], claim["id"]
