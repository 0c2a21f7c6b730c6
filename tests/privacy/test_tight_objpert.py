"""Objective perturbation: the tight price against exact one-dimensional problems."""

import math

import numpy as np
import pytest
from dp_accounting import (
    SelfComposedDpEvent,
)
from scipy.special import expit

from dplangevin.privacy import (
    ObjectivePerturbationDpEvent,
    PureObjectivePerturbationDpEvent,
)
from dplangevin.privacy.accountants.analytic_gaussian import delta_of
from dplangevin.privacy.accountants.chaudhuri2011 import Chaudhuri2011
from dplangevin.privacy.accountants.kifer2012 import Kifer2012
from dplangevin.privacy.accountants.tight import Tight

DELTA = 1e-5
TIGHT = Tight()


def exact_objective_perturbation(event, margins, epsilon):
    """delta(epsilon) of the 1-d problem with records y x = margins, by change of variables."""
    theta = np.linspace(-12 * event.noise_std / event.ridge, 12 * event.noise_std / event.ridge, 200_001)
    cell = theta[1] - theta[0]

    def density(points):
        slope = sum(-m * expit(-m * theta) for m in points) + event.ridge * theta
        curvature = sum(m * m * expit(m * theta) * expit(-m * theta) for m in points) + event.ridge
        return (
            np.exp(-((slope / event.noise_std) ** 2) / 2)
            / (event.noise_std * math.sqrt(2 * math.pi))
            * curvature
        )

    first, second = (density(points) for points in margins)
    assert first.sum() * cell == pytest.approx(1.0, abs=1e-6)
    return float(np.maximum(0.0, first - math.exp(epsilon) * second).sum() * cell)


@pytest.mark.parametrize(("noise_std", "ridge"), [(10.0, 5.0), (3.0, 1.0), (1.0, 0.5), (40.0, 2.0)])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_objective_perturbation_bounds_exact_one_dimensional_problems(noise_std, ridge, delta, adjacency):
    event = ObjectivePerturbationDpEvent(noise_std, 1.0, 0.25, ridge)
    epsilon = TIGHT.epsilon(event, delta, adjacency)
    for others in ([], [1.0, -0.5], [0.1, 0.9, 0.9, 0.9]):
        one = [*others, 1.0]
        for two in [others] if adjacency == "add_remove" else [[*others, -1.0], [*others, 0.3]]:
            for pair in ((one, two), (two, one)):
                assert exact_objective_perturbation(event, pair, epsilon) <= delta * (1 + 1e-6)
    assert epsilon <= Kifer2012().epsilon(event, delta, adjacency)


@pytest.mark.parametrize(
    ("adjacency", "expected"),
    [  # mpmath: log(1 + 0.25/5) + the Gaussian epsilon at mu = 0.2 and 0.1
        ("replace_one", 0.774311915027),
        ("add_remove", 0.389459528854),
    ],
)
def test_objective_perturbation_epsilon(adjacency, expected):
    event = ObjectivePerturbationDpEvent(10.0, 1.0, 0.25, 5.0)
    assert TIGHT.epsilon(event, DELTA, adjacency) == pytest.approx(expected, rel=1e-9)
    scaled = ObjectivePerturbationDpEvent(20.0, 2.0, 0.25, 5.0)
    assert TIGHT.epsilon(scaled, DELTA, adjacency) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mu", [0.03, 0.3, 1.0, 3.0])
def test_opposite_records_are_the_worst_replacement(mu):
    grid = np.linspace(-8.5, 8.5, 701)
    one, two = np.meshgrid(grid, grid, indexing="ij")
    weight = np.exp(-(one**2 + two**2) / 2) / (2 * math.pi) * (grid[1] - grid[0]) ** 2
    for angle in np.linspace(0, math.pi, 13):
        cos, sin = math.cos(angle), math.sin(angle)
        vertices = ((0.0, 0.0), (1.0, 0.0), (cos, sin), (1 + cos, sin))
        loss = np.max([mu * (v * one + w * two) + mu**2 * (v * v + w * w) / 2 for v, w in vertices], axis=0)
        for epsilon in mu * np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0]):
            delta = float((weight * np.maximum(0.0, -np.expm1(epsilon - loss))).sum())
            assert delta <= float(delta_of(2 * mu, epsilon)) * (1 + 1e-3)


def test_objective_perturbation_is_not_composed():
    event = ObjectivePerturbationDpEvent(10.0, 1.0, 0.25, 5.0)
    with pytest.raises(ValueError, match="not in a composition"):
        TIGHT.epsilon(SelfComposedDpEvent(event, 2), DELTA)


def test_pure_objective_perturbation():
    event = PureObjectivePerturbationDpEvent(0.4, 1.0, 0.25, 5.0)
    assert TIGHT.epsilon(event, 0.0) == pytest.approx(0.8 + math.log(1.05), rel=1e-12)
    assert TIGHT.epsilon(event, 0.0, "add_remove") == pytest.approx(0.4 + math.log(1.05), rel=1e-12)
    assert TIGHT.epsilon(event, 0.0) < Chaudhuri2011().epsilon(event, 0.0)


def test_pure_objective_perturbation_bounds_an_exact_one_dimensional_problem():
    event = PureObjectivePerturbationDpEvent(0.4, 1.0, 0.25, 1.0)
    theta = np.linspace(-30, 30, 20_001)

    def log_density(points):
        slope = sum(-m * expit(-m * theta) for m in points) + event.ridge * theta
        curvature = sum(m * m * expit(m * theta) * expit(-m * theta) for m in points) + event.ridge
        return -event.rate * np.abs(slope) + np.log(curvature)

    loss = np.abs(log_density([0.4, 1.0]) - log_density([0.4, -1.0])).max()
    assert loss <= TIGHT.epsilon(event, 0.0)
    assert loss > 0.2 * TIGHT.epsilon(event, 0.0)
