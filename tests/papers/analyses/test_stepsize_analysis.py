"""The step sizes of li2019's Figures 1 and 2, against the formulas they must obey."""

import math

import numpy as np
import pandas as pd
import pytest
from checkout import ROOT
from omegaconf import OmegaConf
from scipy.optimize import brentq

from dplangevin.papers.analyses.stepsize import Budgets, Curve, Setting, Sizes
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.moments_accountant import Moments
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.gaussian_steps import StepSchedule
from dplangevin.privacy.li2019 import POWERS

SETTING = Setting(records=50_000, batch=128, steps=10_000, lipschitz=1.0, delta=1e-5)
PUBLISHED = {"decreasing": 0.103, "wang2015": 1.54e-6}
CURVES = {
    "moments_32": Curve(Moments(32), "add_remove"),
    "moments_256": Curve(Moments(256), "add_remove"),
    "tight": Curve(Tight(), "add_remove"),
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    fixed: dict[str, list[StepSchedule]] = {name: ["fixed"] for name in CURVES}
    panels: dict[str, dict[str, list[StepSchedule]]] = {"budget": fixed, "records": fixed, "batch": {}}
    analysis = Budgets(CURVES, panels, SETTING, [0.1, 0.37], 0.1, PUBLISHED, [1000], [0.5, 1.0], [64, 128])
    return pd.DataFrame([line for unit in analysis.units() for line in analysis.rows(unit, 0)])


def steps(frame: pd.DataFrame, curve: str, panel: str = "budget", schedule: str = "fixed") -> np.ndarray:
    """(K,) the step sizes of one curve."""
    rows = frame[frame.panel.eq(panel) & frame.curve.eq(curve) & frame.schedule.eq(schedule)]
    return rows.step_size.to_numpy(float)


@pytest.mark.slow
def test_few_orders_have_no_bound_below_their_reach(frame: pd.DataFrame) -> None:
    rows = frame[frame.panel.eq("budget") & frame.curve.eq("moments_32")]
    assert rows.reachable.tolist() == [0, 1]
    assert rows.step_size.isna().tolist() == (rows.epsilon <= math.log(1e5) / 32).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "decay"), [("fixed", 0.0), ("decreasing", 1 / 3)])
def test_the_tight_example_is_nearly_what_the_central_limit_gives(
    frame: pd.DataFrame, schedule: str, decay: float
) -> None:
    """mu^2 = q^2 sum_t (exp(1/s_t^2) - 1), 1/s_t^2 = eta_t N L^2/tau^2."""
    mu = brentq(lambda mu: epsilon_of(mu, SETTING.delta) - 0.1, 1e-4, 1)
    sizes = np.arange(1, SETTING.steps + 1) ** -decay

    def excess(eta: float) -> float:
        return (128 / 50_000) ** 2 * np.expm1(eta * sizes * 50_000 / 128**2).sum() - mu**2

    assert steps(frame, "tight", "example", schedule) == pytest.approx([brentq(excess, 1e-4, 1)], rel=0.03)


@pytest.mark.slow
def test_the_printed_steps_by_hand(frame: pd.DataFrame) -> None:
    """wang2015's bound has lost its factor; the printed step needs a constant below one."""
    logs = math.log(2.5e9) * math.log(2e5)
    assert steps(frame, "wang2015", "example")[0] == pytest.approx(500 / (128e4 * logs))
    assert f"{steps(frame, 'wang2015, no 2.5', 'example')[0]:.2e}" == "1.54e-06"
    (row,) = frame[frame.curve.eq("published")].itertuples()
    assert row.constant == pytest.approx(0.01 * 5e4 / (1e4 ** (2 / 3) * math.log(1e5)) / 0.103)
    assert row.noise_multiplier == pytest.approx(128 / math.sqrt(0.103 * 50_000))


def test_a_step_costs_what_it_was_calibrated_to() -> None:
    curve = Curve(Moments(64, "printed"), "add_remove")
    for schedule in POWERS:
        event = SETTING.event(curve.bound(schedule, SETTING, 0.5), schedule)
        assert curve.accountant.epsilon(event, SETTING.delta, "add_remove") == pytest.approx(0.5, rel=1e-3)


def test_sizes_tie_delta_and_steps_to_the_records() -> None:
    analysis = Sizes(
        {"one": Curve(Moments(64, "printed"), "add_remove")}, [0.5], [300, 500], 500, [1.0, 10.0], 50
    )
    rows = pd.DataFrame([line for unit in analysis.units() for line in analysis.rows(unit, 0)])
    assert np.all(rows.delta * rows.records == 1)
    assert np.all(rows.steps == rows.records)
    scaled = rows[rows.panel.eq("lipschitz") & rows.schedule.eq("fixed")].set_index("lipschitz").step_size
    assert scaled[1.0] == pytest.approx(100 * scaled[10.0])


def test_the_config_has_the_published_numbers() -> None:
    spec = OmegaConf.load(ROOT / "conf/analysis/li2019_fig1.yaml")
    printed = pd.read_csv(ROOT / "data/published/li2019.csv").set_index("quantity").value
    assert {name: printed[f"step_size_{name}"] for name in PUBLISHED} == dict(spec.published)
    for name in ("records", "steps", "lipschitz", "delta"):
        assert spec.setting[name] == np.atleast_1d(printed[name])[0]
    assert [spec.epsilons[0], spec.epsilons[-1]] == [printed.epsilon_first, printed.epsilon_last]
