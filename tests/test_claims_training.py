"""Rules for claims on trained networks, each verdict provoked, and the committed claims on made-up runs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from scipy import stats
from training_rows import INF, final, finals

from dplangevin import claims
from dplangevin.claims import sides, training
from dplangevin.claims.table import COLUMNS, evaluate, expand

ROOT = Path(__file__).parents[1]
CELL = {"block": "equal", "method": "dp_sgd", "epsilon": 0.99}


def both(paper: float | None, small: float | None, seeds: int = 1, method: str = "dp_sgd") -> pd.DataFrame:
    """One budget of one method on the paper's network (`seeds` seeds) and on the small one (three)."""
    frames = []
    if paper is not None:
        frames.append(final(f"li2019_{method}", [paper], [0.99], seeds=seeds))
    if small is not None:
        frames.append(final(f"tanh_{method}", [small], [0.99]))
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize(
    ("paper", "small", "seeds", "verdict"),
    [
        (0.97, 0.99, 1, claims.REPRODUCED),
        (0.974, None, 1, claims.REPRODUCED),
        (0.94, 0.972, 1, claims.UNDER_CHOICES),
        (None, 0.972, 1, claims.UNDER_CHOICES),
        (0.94, 0.95, 1, claims.CONTRADICTED),
        (0.94, None, 3, claims.CONTRADICTED),
        (0.94, None, 1, claims.NOT_REPRODUCED),  # one seed shows nothing
        (0.964, 0.976, 3, claims.NOT_REPRODUCED),  # both intervals reach into what was asked
    ],
)
def test_accuracy(paper: float | None, small: float | None, seeds: int, verdict: str) -> None:
    frame = both(paper, small, seeds)
    found = training.accuracy(frame, where=CELL, published=0.97, margin=0.005, small="tanh")
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(small if paper is None else paper)
    if paper is None or seeds == 3:
        half = stats.t.ppf(0.975, 2) * 0.001 / math.sqrt(3)
        assert found["high"] - found["ours"] == pytest.approx(half)
    else:
        assert math.isnan(found["low"])
        assert "one seed: no interval" in found["reason"]
    assert ("the paper's network was not trained" in found["reason"]) == (paper is None)


def test_accuracy_in_other_settings() -> None:
    frame = pd.concat([both(0.94, 0.95), both(None, 0.969, method="dp_sgld")], ignore_index=True)
    where = {"block": "equal", "epsilon": 0.99}

    def judged(**others: Any) -> claims.Verdict:
        here = {**where, "method": "dp_sgd"}
        return training.accuracy(frame, where=here, published=0.97, margin=0.005, small="tanh", others=others)

    rescued = judged(**{"by SGLD": {**where, "method": "dp_sgld"}})
    assert rescued["verdict"] == claims.UNDER_CHOICES
    assert "by SGLD, tanh: 96.90 %" in rescued["reason"]
    assert judged(again={**where, "method": "dp_sgd"})["verdict"] == claims.CONTRADICTED
    assert judged(absent={"method": "pate"})["reason"] == judged()["reason"]


def test_rows_that_do_not_fit() -> None:
    frame = both(0.94, 0.95)
    with pytest.raises(claims.NoRows, match=r"no run with \(equal, pate"):
        training.accuracy(frame, where={"block": "equal", "method": "pate"}, published=0.9, margin=0.1)
    with pytest.raises(ValueError, match=r"several networks \['li2019', 'tanh'\]"):
        training.accuracy(frame, where=CELL, published=0.9, margin=0.1)
    twice = final("tanh_dp_sgd", [0.9, 0.95], [0.5, 0.99])
    with pytest.raises(ValueError, match=r"0\.5.*narrow its `where`"):
        training.accuracy(twice, where={"block": "equal"}, published=0.9, margin=0.1, small="tanh")


def ordered(frame: pd.DataFrame, **other: Any) -> claims.Verdict:
    first, second = {"method": "dp_sgld"}, {"method": "dp_sgd"}
    return training.above(frame, first=first, second=second, small="tanh", **other)


@pytest.mark.parametrize(
    ("paper", "small", "seeds", "verdict"),
    [
        (0.01, 0.01, 1, claims.REPRODUCED),
        (0.01, None, 3, claims.REPRODUCED),
        (0.01, -0.01, 3, claims.REPRODUCED),  # shown on the paper's network itself
        (-0.01, 0.01, 1, claims.UNDER_CHOICES),
        (None, 0.01, 1, claims.UNDER_CHOICES),
        (-0.01, -0.01, 1, claims.CONTRADICTED),
        (None, -0.01, 1, claims.CONTRADICTED),
        (0.01, None, 1, claims.NOT_REPRODUCED),
        (-0.01, None, 1, claims.NOT_REPRODUCED),
        (0.01, -0.01, 1, claims.NOT_REPRODUCED),  # the two networks disagree
        (None, 0.0005, 1, claims.NOT_REPRODUCED),
    ],
)
def test_above(paper: float | None, small: float | None, seeds: int, verdict: str) -> None:
    level = [(None, None) if gap is None else (0.9 + gap, 0.9) for gap in (paper, small)]
    first = both(level[0][0], level[1][0], seeds, "dp_sgld")
    second = both(level[0][1], level[1][1], seeds)
    found = ordered(pd.concat([first, second], ignore_index=True))
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(small if paper is None else paper)


def test_above_with_a_margin() -> None:
    frame = pd.concat([both(None, 0.9), both(None, 0.896, method="dp_sgld")], ignore_index=True)
    assert ordered(frame)["verdict"] == claims.CONTRADICTED
    assert ordered(frame, margin=0.01)["verdict"] == claims.UNDER_CHOICES
    assert ordered(frame, margin=0.002)["verdict"] == claims.NOT_REPRODUCED


def test_above_over_common_budgets() -> None:
    """The mean counts, and a budget that is significantly below spoils it; others than common ones do not count."""
    second = final("tanh_dp_sgd", [0.5, 0.9, 0.9], [0.1, 0.5, 0.99])

    def judged(means: list[float]) -> claims.Verdict:
        first = final("tanh_dp_sgld", [*means, 0.1], [0.5, 0.99, 8.0])
        return ordered(pd.concat([first, second], ignore_index=True), by="epsilon")

    clear = judged([0.91, 0.92])
    assert clear["verdict"] == claims.UNDER_CHOICES
    assert clear["ours"] == pytest.approx(0.015)
    assert "+1.00 at 0.5, +2.00 at 0.99" in clear["reason"]
    assert judged([0.89, 0.95])["verdict"] == claims.NOT_REPRODUCED
    apart = pd.concat([final("tanh_dp_sgld", [0.9], [8.0]), second], ignore_index=True)
    with pytest.raises(claims.NoRows, match="no network was trained both"):
        ordered(apart, by="epsilon")


def test_welch_is_that_of_scipy(rng: np.random.Generator) -> None:
    first, second = pd.Series(rng.normal(1, 1, 4)), pd.Series(rng.normal(0, 3, 7))
    found = sides.welch(first, second)
    reference = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high))
    same = pd.Series([0.5, 0.5])
    assert sides.welch(same, same) == (0, 0, 0)


def test_reason_tells_the_price_and_a_failed_condition() -> None:
    frame = both(0.9, 0.9).assign(violated="T too small")
    reason = training.accuracy(frame, where=CELL, published=0.9, margin=0.01, small="tanh")["reason"]
    assert (
        "at tight ε 0.98 add/remove, 1.78 replace-one, δ 1e-5, a condition of its guarantee fails" in reason
    )
    free = both(0.9, None).assign(epsilon_add_remove=INF)
    assert "not private" in training.accuracy(free, where=CELL, published=0.9, margin=0.01)["reason"]


@pytest.fixture(scope="module")
def paper() -> dict[str, Any]:
    found: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "conf/claim/li2019.yaml"))
    found["claims"] = {name: entry for name, entry in found["claims"].items() if "training" in entry}
    return found


def test_committed_claims_on_made_up_runs(paper: dict[str, Any]) -> None:
    frame = pd.concat(finals().values(), ignore_index=True)
    table = evaluate(paper, pd.DataFrame(), training={"li2019_tab1": frame}).set_index("id")
    assert [*table.reset_index().columns] == COLUMNS
    svhn = table.index.str.startswith("li2019_svhn")
    assert set(table.reason[svhn]) == {paper["training"]["li2019_tab1_svhn"]}
    assert "could not be fetched" in paper["training"]["li2019_tab1_svhn"]
    assert set(table.verdict[svhn]) == {claims.NOT_TESTABLE}
    assert claims.NOT_TESTABLE not in set(table.verdict[~svhn])
    assert table.verdict["li2019_tab1_nonprivate"] == claims.REPRODUCED
    assert table.verdict["li2019_tab1_dp_sgld"] == claims.CONTRADICTED
    assert table.verdict["li2019_tab1_constant_step"] == claims.UNDER_CHOICES
    assert table.verdict["li2019_tab1_above_dp_sgd_audited"] == claims.CONTRADICTED


def test_committed_claims_on_svhn_runs(paper: dict[str, Any]) -> None:
    """Every claim on SVHN can be tested once its runs are there."""
    names = {"dataset": "svhn", "network": "li2019_svhn", "experiment": "li2019_tab1_svhn"}
    frames = [
        final("svhn_sgd", [0.93], [INF], block="nonprivate", **names),
        final("svhn_dp_sgld_printed", [0.2], [2.97], block="printed", **names),
        final("svhn_dp_sgld", [0.8, 0.85], [2.97, 4.96], **names),
        final("svhn_pate", [0.81, 0.9], [2.97, 4.96], **names),
    ]
    frame = pd.concat(frames, ignore_index=True)
    table = evaluate(paper, pd.DataFrame(), training={"li2019_tab1_svhn": frame}).set_index("id")
    svhn = table[table.index.str.startswith("li2019_svhn")]
    assert claims.NOT_TESTABLE not in set(svhn.verdict)
    assert svhn.verdict["li2019_svhn_nonprivate"] == claims.REPRODUCED
    rest = table.drop(svhn.index)
    assert set(rest.reason) == {"no run of li2019_tab1 was read"}


def test_every_number_asked_for_is_published(paper: dict[str, Any]) -> None:
    printed = pd.read_csv(ROOT / "data/published/li2019.csv")
    cells = [claim for claim in expand(paper) if claim["test"]["_target_"].endswith("training.accuracy")]
    table1 = printed[printed["where"].eq("Table 1") & printed.quantity.str.startswith("accuracy_")]
    asked = sorted(claim["test"]["published"] for claim in cells)
    assert asked == pytest.approx(sorted(table1.value.astype(float)))
    for claim in cells:
        assert f"{100 * claim['test']['published']:.2f}%" in claim["statement"]


def test_claims_ask_for_settings_that_are_trained(paper: dict[str, Any]) -> None:
    names = list(paper["training"])
    experiments = {name: OmegaConf.load(ROOT / f"conf/training/{name}.yaml") for name in names}
    cfg = OmegaConf.create({"training": experiments})
    for claim in expand(paper):
        found: Any = OmegaConf.to_container(cfg.training[claim["training"]].runs, resolve=True)
        budgets = {(entry["learner"], e) for entry in found.values() for e in entry["epsilons"] or ()}
        test = claim["test"]
        for where in [test[key] for key in ("where", "first", "second") if key in test]:
            runs = where.get("run", [])
            assert set(runs if isinstance(runs, list) else [runs]) <= set(found), claim["id"]
            assert "epsilon" not in where or (where["method"], where["epsilon"]) in budgets, claim["id"]
