"""What one example contributes: never more than the clip, and nothing that is not finite."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_by_one import network_of, problem
from torch import Tensor, nn

from dplangevin.engine import ghost
from dplangevin.engine.clipped import clipped_sum
from dplangevin.problems.architectures import Network

SCALES = [0.0, 1e-30, 1e-12, 1e-3, 1.0, 1e3, 1e8]


NETWORKS = [
    network_of(nn.Conv2d(2, 4, 3, 2, 1, groups=2), nn.ReLU(), nn.MaxPool2d(2, 1), shape=(2, 7, 7)),
    network_of(nn.Conv2d(1, 2, 2, bias=False), nn.GELU(), nn.Conv2d(2, 2, 3), nn.Tanh(), shape=(1, 6, 6)),
    network_of(nn.Flatten(), nn.Linear(50, 4), nn.Tanh(), shape=(2, 5, 5)),
    network_of(shape=(3, 5, 5)),
]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    network=st.sampled_from(NETWORKS),
    scale=st.sampled_from(SCALES),
    spread=st.sampled_from([0.0, 1.0, 30.0]),
    clip=st.sampled_from([1e-9, 0.3, 5.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    gram=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_no_example_contributes_more_than_the_clip(network, scale, spread, clip, dtype, gram, seed):
    theta, x, y, mask = problem(network, batch=3, dtype=dtype, seed=seed)
    theta, x = theta * spread, x * scale
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ghost, "gram_is_cheaper", lambda *sizes: gram)
        for i in range(3):
            alone = mask & (torch.arange(3) == i)
            found = clipped_sum(network, theta, x, y, alone, clip)  # 0 where it is too large for its type
            assert float(found.gradient.double().norm()) <= clip * (1 + 1e-6)


def test_gradients_that_cancel_are_clipped_in_the_gram_form(monkeypatch):
    """Places whose terms cancel, where the Gram form loses digits and the sum is made of products of its own."""
    monkeypatch.setattr(ghost, "gram_is_cheaper", lambda *sizes: True)
    network = network_of(nn.Conv2d(2, 3, 2), nn.AvgPool2d(7), shape=(2, 8, 8))
    theta, _, y, mask = problem(network, batch=40, dtype=torch.float32)
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(1, 40, 2, 8, 8, generator=rng)
    x -= x.mean((3, 4), keepdim=True)
    for i in range(40):
        alone = clipped_sum(network, theta, x, y, mask & (torch.arange(40) == i), 1e-3)
        assert float(alone.gradient.double().norm()) <= 1e-3 * (1 + 1e-6)


@pytest.fixture
def network() -> Network:
    return network_of(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), shape=(1, 8, 8))


def left_out(network, theta, x, y, mask, clip, seed, row, size=None):
    """The sum is that of all other examples, and no error tells of this one."""
    others = mask.clone()
    others[seed, row] = False
    found = clipped_sum(network, theta, x, y, mask, clip, micro_batch=size)
    wanted = clipped_sum(network, theta, x.nan_to_num(0, 0, 0), y, others, clip, micro_batch=size)
    assert torch.equal(found.gradient, wanted.gradient)
    assert torch.equal(found.loss, wanted.loss)


@pytest.mark.parametrize(
    ("value", "clip"),
    [(v, c) for v in (math.inf, -math.inf, math.nan) for c in (0.5, math.inf)] + [(3e38, 0.5)],
)
@pytest.mark.parametrize("size", [1, 8])
def test_an_example_that_is_not_finite_contributes_nothing(network, value, clip, size):
    theta, x, y, mask = problem(network, seeds=2, batch=4, dtype=torch.float32)
    x[1, 2, 0, 3, 3] = value
    left_out(network, theta, x, y, mask, clip, 1, 2, size)


def test_an_infinite_pixel_that_no_logit_sees_contributes_nothing(network):
    """Behind a ReLU that is shut, the loss stays finite; the gradient is 0 times infinity."""
    theta, x, y, mask = problem(network, dtype=torch.float32)
    theta[:, :27] = -theta[:, :27].abs()  # filters
    x[0, 1] = math.inf
    assert bool(torch.isfinite(network.logits(theta, x)).all())
    for clip in (0.5, math.inf):
        left_out(network, theta, x, y, mask, clip, 0, 1)


def test_gradients_too_large_to_square_contribute_nothing():
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), (1, 2, 2), 2)
    theta, x, y, mask = problem(network, dtype=torch.float32)
    x[0, 3] = 1e25
    left_out(network, theta * 0, x, y, mask, 0.5, 0, 3)


def test_an_example_contributes_nothing_where_an_image_of_zeros_is_not_finite_either():
    module = nn.Sequential(nn.Flatten(), nn.Linear(1, 2), nn.Linear(2, 2))
    network = Network(module, (1, 1, 1), 2)
    theta = torch.tensor([[1e20, 1e20, 1e20, 1e20, 1e19, -1e19, 1e19, 1e19, 0.0, 0.0]])  # 1e20 (x + 1), twice
    x, y = torch.tensor([-1.0, -1.0, 1.0]).view(1, 3, 1, 1, 1), torch.zeros(1, 3, dtype=torch.long)
    mask = torch.ones(1, 3, dtype=torch.bool)
    for clip in (1.0, math.inf):
        found, wanted = (clipped_sum(network, theta, x[:, :n], y[:, :n], mask[:, :n], clip) for n in (3, 2))
        assert bool(found.gradient.isfinite().all())
        assert torch.equal(found.gradient, wanted.gradient)
        nothing = clipped_sum(network, theta, x[:, 2:], y[:, 2:], mask[:, 2:], clip)
        assert not bool(nothing.gradient.any() | nothing.loss.any())


def test_parameters_that_are_not_finite_are_named(network):
    """They are released, or alike on all data sets; the examples are not named."""
    theta, x, y, mask = problem(network, seeds=2, batch=4, dtype=torch.float32)
    theta[1, 5] = math.inf
    with pytest.raises(ValueError, match="the parameters of network 1 are not finite: lower the step size"):
        clipped_sum(network, theta, x, y, mask, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g | {"clip": 0.0}, "clip must be positive"),
        (lambda g: g | {"clip": math.nan}, "clip must be positive"),
        (lambda g: g | {"y": g["y"] + 3}, "labels must be 0, ..., 2"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(network, change, message):
    theta, x, y, mask = problem(network, dtype=torch.float32)
    given: dict[str, Tensor | float] = {"theta": theta, "x": x, "y": y, "mask": mask, "clip": 1.0}
    with pytest.raises(ValueError, match=message):
        clipped_sum(network, **change(given))
