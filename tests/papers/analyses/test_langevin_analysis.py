"""The analyses of ryffel2022's privacy bound: each number against one that is worked out another way."""

import math
from dataclasses import replace
from typing import Any

import attr
import numpy as np
import pandas as pd
import pytest
from loading import ROOT, analysis
from mpmath import mp
from quick import sample
from scipy.stats import kstest

from dplangevin.attacks import dp_langevin as attack
from dplangevin.attacks.laws import epsilon_of
from dplangevin.papers.analyses import counterexample, langevin, ryffel2022_privacy
from dplangevin.privacy.accountants.last_iterate import Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import LangevinDpEvent
from dplangevin.random import generator


@pytest.fixture(scope="module")
def privacy() -> ryffel2022_privacy.LangevinPrivacy:
    return analysis("ryffel2022_privacy", steps=[1, 100, 3000], batches=[8, 128, "full"])


@pytest.fixture(scope="module")
def published(privacy: ryffel2022_privacy.LangevinPrivacy) -> pd.DataFrame:
    units = [unit for unit in privacy.units() if unit.endswith("published")]
    return pd.DataFrame([row for unit in units for row in privacy.rows(unit, 1)])


@pytest.fixture(scope="module")
def pair() -> counterexample.Counterexample:
    return analysis("ryffel2022_counterexample", steps=[1, 4])


def test_one_step_is_what_composition_says_of_one_step(privacy: ryffel2022_privacy.LangevinPrivacy) -> None:
    event = privacy.settings["cifar10_resnet18"].event(128, 1)
    assert langevin.one_step(event, 1e-5) == pytest.approx(
        Tight().epsilon(event.all_iterates(), 1e-5), rel=2e-3
    )
    assert langevin.one_step(attr.evolve(event, batch=1), 1e-4) == 0.0


def test_averaged_composition_is_that_of_full_batches(privacy: ryffel2022_privacy.LangevinPrivacy) -> None:
    event = privacy.settings["cifar10_alexnet"].event(50000, 40)
    slope = (2 / event.multipliers() ** 2).sum()  # R_alpha = alpha mu^2/2 a step, mu = 2/z
    assert langevin.averaged_composition(event, 1e-5) == pytest.approx(
        slope + 2 * math.sqrt(slope * math.log(1e5))
    )


@pytest.mark.slow
def test_no_pair_beats_a_proof(published: pd.DataFrame) -> None:
    rows = published.pivot(index=["setting", "schedule"], columns="quantity", values="epsilon")
    assert (rows.audit <= rows.last_iterate).all()
    assert (rows.last_iterate <= rows.all_iterates * (1 + 1e-9)).all()


SMALL = LangevinDpEvent(
    20, 2, 6, step_size=0.3, noise_std=1.0, lipschitz=3.0, strong_convexity=0.2, smoothness=0.2
)


@pytest.mark.parametrize("others", ["flat", "opposite"])
@pytest.mark.parametrize(
    ("start", "changed"),
    sample(
        [(None, {"decay": 0.3}), (0.0, {}), (None, {"noise_std": 0.3}), (0.0, {"batch": 20})],
        lambda start, changed: "batch" in changed,
    ),
)
def test_sums_of_uses_and_repeated_quadrature_agree(
    others: Any, start: float | None, changed: dict[str, float]
) -> None:
    event = attr.evolve(SMALL, **changed)  # type: ignore[arg-type]
    by_sums = attack.unprojected_distributions(event, start, others, math.inf)
    by_steps = attack.last_iterate_distributions(event, start, math.inf, others, nodes=1500)
    for delta in (1e-2, 1e-5, 1e-10):
        found, expected = (epsilon_of(each, delta) for each in (by_sums, by_steps))
        assert found == pytest.approx(expected, rel=1e-2)
    for one, two in ((by_sums.first, by_steps.first), (by_sums.second, by_steps.second)):
        mean, other = np.exp(one) @ by_sums.points, np.exp(two) @ by_steps.points
        assert mean == pytest.approx(other, abs=1e-3)
        assert np.exp(one) @ by_sums.points**2 - mean**2 == pytest.approx(
            np.exp(two) @ by_steps.points**2 - other**2, rel=1e-3
        )


@pytest.mark.parametrize("others", ["flat", "opposite"])
def test_the_law_of_thousands_of_steps_is_that_of_runs(
    privacy: ryffel2022_privacy.LangevinPrivacy, others: Any
) -> None:
    event = privacy.settings["pneumonia_resnet18"].event(128, 2017)
    law = attack.unprojected_distributions(event, None, others, math.inf)
    runs = attack.last_iterate(event, 20_000, generator(1, "law"), None, math.inf, others)
    edges = law.points + (law.points[1] - law.points[0]) / 2
    for side, logs in zip(runs, (law.first, law.second), strict=True):
        cumulative = np.exp(logs).cumsum()
        assert cumulative[-1] == pytest.approx(1, abs=1e-9)
        assert kstest(side, lambda x, c=cumulative: np.interp(x, edges, c)).pvalue > 1e-3


def test_a_price_beyond_the_ceiling_is_a_lower_bound(privacy: ryffel2022_privacy.LangevinPrivacy) -> None:
    rows = pd.DataFrame(privacy.rows("cifar10_resnet18/8", 1)).set_index(["quantity", "steps"])
    assert rows.sense["all_iterates", 100] == "lower"
    assert rows.epsilon["all_iterates", 100] > privacy.ceiling


@pytest.mark.slow
def test_calibration_meets_the_target(privacy: ryffel2022_privacy.LangevinPrivacy) -> None:
    rows = pd.DataFrame(privacy.rows("pneumonia_resnet18/calibrated", 1))
    claimed = rows[rows.quantity.eq("theorem")]
    assert claimed.epsilon.to_numpy() == pytest.approx(np.ones(3), rel=1e-3)
    assert claimed.noise_std.is_monotonic_decreasing


def test_settings_are_the_published_ones(privacy: ryffel2022_privacy.LangevinPrivacy) -> None:
    table = pd.read_csv(ROOT / "data/published/ryffel2022.csv").set_index(["dataset", "quantity"]).value
    table = table[~table.index.duplicated()]
    for name, setting in privacy.settings.items():
        for field, quantity in {"lipschitz": "clip", "delta": "delta_used"}.items():
            assert getattr(setting, field) == table[name, quantity]
        for field in ("records", "step_size", "strong_convexity", "smoothness", "noise_std", "epochs"):
            assert getattr(setting, field) == table[name, field]
        decreasing = setting.event(privacy.batch, 1, "decreasing")
        assert decreasing.decay == decreasing.strong_convexity / 2
        assert decreasing.lipschitz == table[name, "clip_decreasing"]
        assert decreasing.noise_std == table[name, "noise_std_decreasing"]
        assert privacy.batch == table[name, "batch"]
    assert privacy.settings["pneumonia_resnet18"].steps(128) == 2017
    alexnet = privacy.settings["cifar10_alexnet"].event(128, 1, "decreasing")
    assert alexnet.strong_convexity == 0.001  # a lambda of its own


def test_theorem_fails_on_the_pair_and_all_its_hypotheses_hold(pair: counterexample.Counterexample) -> None:
    rows = pd.DataFrame(pair.rows("hypotheses", 1))
    assert rows.note.eq("holds").all()
    assert Ryffel2022().violated(pair.event(1), 1e-5) == ()
    table = pd.DataFrame(pair.rows("renyi", 1)).pivot(index="x", columns="quantity", values="value")
    assert (table.exact > 80 * table.claimed).all()
    assert table.claimed[1] == pytest.approx(0.196, abs=5e-4)
    assert table.exact[1] == pytest.approx(35.3, abs=0.05)


def test_theorem_fails_for_minibatches_of_every_size_exactly_and_by_an_attack() -> None:
    rows = pd.DataFrame(analysis("ryffel2022_counterexample", runs=1_000_000).rows("minibatches", 1))
    table = rows.pivot(index="x", columns="quantity", values="value")
    assert [*table.index] == [1, 2, 128, 512]
    assert np.allclose(table["R promised"], [0.196, 0.786, 0.0128, 0.203], rtol=4e-3)
    assert (table["R exact"] > 70 * table["R promised"]).all()
    assert (table["ε promised"] < table["ε audit"]).all()
    assert (table["ε audit"] < table["ε exact"]).all()


@pytest.mark.parametrize(("records", "batch"), [(100, 1), (100, 2), (50_000, 128)])
def test_divergences_of_the_pair_by_quadrature(records: int, batch: int) -> None:
    """R_2 of one step's mixtures of normals, cut to C; that theta_0 is cut, too, moves it by 2e-7 at most."""
    every = analysis("ryffel2022_counterexample")
    (given,) = (each for each in every.minibatches if (each["records"], each["batch"]) == (records, batch))
    pair, share, end = replace(every, **given), batch / records, given["radius"]
    spread = given["noise_std"] * mp.sqrt(1.5)  # eta = 1/2, lambda = 1: (1 - 1/2)^2 2 + 2/2
    bump = (1 - end) / 2 / batch / spread

    def mixed(law: Any, at: Any, sign: int) -> Any:
        return (1 - share) * law(at) + share * law(at - sign * bump)

    def term(law: Any, at: Any, sign: int = 1) -> Any:
        return mixed(law, at, sign) ** 2 / mixed(law, at, -sign)

    far = end / spread
    inside = mp.quad(lambda t: term(mp.npdf, t), mp.linspace(-far, far, 61))
    ends = term(mp.ncdf, -far) + term(mp.ncdf, -far, -1)  # the mass beyond an end of C lies on it
    wanted = float(mp.log(inside + ends))
    assert counterexample.renyi(pair.distributions(1), 2.0) == pytest.approx(wanted, rel=1e-6)
