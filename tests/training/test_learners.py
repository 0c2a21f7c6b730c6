"""Each learner: what it adds to the loop, and that it learns."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import steps_event
from dplangevin.training import Learner, Task, Trained
from dplangevin.training.dp_sgd import DpSgd
from dplangevin.training.dp_sgld import DpSgld
from dplangevin.training.loop import Steps
from dplangevin.training.sgd import Sgd, cosine
from dplangevin.training.sgld import Sgld

Make = Callable[..., Task]
STEPS = Steps(batch=40, epochs=6, measured=2)
TIGHT = Tight()


def dp_sgld(**changes: Any) -> DpSgld:
    settings = {
        "step": None,
        "clip": 1.0,
        "schedule": "fixed",
        "precision": 1.0,
        "samples": 5,
        "burn_in": 0.5,
    }
    return DpSgld(**{**settings, "minibatches": STEPS, "accountant": TIGHT, **changes})


def dp_sgd(**changes: Any) -> DpSgd:
    settings = {
        "step": 0.5,
        "full_step_noise": 100.0,
        "schedule": "fixed",
        "momentum": 0.0,
        "clip": 1.0,
        "precision": 0.0,
    }
    return DpSgd(**{**settings, "minibatches": STEPS, "accountant": TIGHT, **changes})


def accuracy(trained: Trained, task: Task, predictor: str = "single") -> float:
    right = trained.predicted[predictor].argmax(-1) == task.problem.y_test
    return float(right.double().mean())


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What learners ask of the loop, which then does nothing."""
    seen: list[Any] = []

    def run(self: Steps, task: Task, *given: Any) -> tuple[dict[str, torch.Tensor], list[dict[str, float]]]:
        seen.append(given)
        return {}, []

    monkeypatch.setattr(Steps, "run", run)
    return seen


def test_all_learn(task: Make) -> None:
    learners: list[Learner] = [
        Sgd(0.2, 0.9, 0.0, STEPS),
        Sgld(0.2, "fixed", 1.0, 5, 0.5, STEPS),
        dp_sgd(),
        dp_sgld(step=0.2, clip=None),
    ]
    for number, learner in enumerate(learners):
        here = task(epsilon=8.0 if learner.budgeted else math.inf, folder=str(number))
        trained = learner(here)
        assert accuracy(trained, here) > 0.6, learner
        if "average" in trained.predicted:
            assert accuracy(trained, here, "average") > 0.6


def test_dp_sgd_spends_its_budget(task: Make) -> None:
    trained = dp_sgd()(task(epsilon=1.0))
    sigma = trained.settings["noise_multiplier"]
    event = steps_event(sigma, rate=0.1, steps=60, schedule="fixed")
    assert trained.guarantee.event == event
    assert 0.99 < TIGHT.epsilon(event, 1e-3, "add_remove") <= 1.0
    assert trained.guarantee.epsilon == TIGHT.epsilon(event, 1e-3, "add_remove")
    assert trained.curve[-1]["epsilon_add_remove"] == trained.guarantee.epsilon


def test_dp_sgd_shortens_its_steps_where_noise_is_large(task: Make) -> None:
    sigma = dp_sgd()(task(epsilon=1.0)).settings["noise_multiplier"]
    for number, (noise, share) in enumerate(((sigma / 2, 0.5), (sigma * 2, 1.0))):
        trained = dp_sgd(full_step_noise=noise)(task(epsilon=1.0, folder=str(number)))
        assert trained.settings["step"] == pytest.approx(0.5 * share)
        assert trained.settings["noise_multiplier"] == sigma


@pytest.mark.parametrize("schedule", ["fixed", "decreasing"])
@pytest.mark.parametrize("temperature", ["printed", "proper"])
def test_dp_sgld_ties_noise_to_its_step(task: Make, schedule: str, temperature: str) -> None:
    """sigma = tau/(L sqrt(eta n/heat)), whichever of step and clip follows from the budget."""
    heat = {"printed": 1, "proper": 2}[temperature]
    for number, given in enumerate(({"clip": 0.7, "step": None}, {"clip": None, "step": 0.01})):
        learner = dp_sgld(**given, schedule=schedule, temperature=temperature, accountant=Li2019())
        trained = learner(task(epsilon=2.0, folder=str(number), seeds=1))
        eta, clip, sigma = (trained.settings[name] for name in ("step", "clip", "noise_multiplier"))
        assert sigma == pytest.approx(40 / (clip * math.sqrt(eta * 400 / heat)), rel=1e-9)
        assert 1.99 < trained.guarantee.epsilon <= 2.0
        event = steps_event(sigma, rate=0.1, steps=60, schedule=schedule)  # type: ignore[arg-type]
        assert trained.guarantee.event == event


def test_printed_settings_cost_what_they_cost(task: Make) -> None:
    """Both given: no calibration, and a price above the claim is not hidden."""
    trained = dp_sgld(step=0.3, clip=5.0)(task(epsilon=0.1))
    assert trained.settings["noise_multiplier"] == pytest.approx(40 / (5 * math.sqrt(0.3 * 400)))
    assert trained.guarantee.epsilon > 5


def test_noise_of_the_chain_is_the_one_accounted(task: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise on the sum, over the clip, is the multiplier of the event, step by step; at a clip of 1 it would be without
    the division."""
    clip = {"clip": 2.5}
    for learner in (
        dp_sgd(**clip),
        dp_sgld(**clip),
        dp_sgld(**clip, schedule="decreasing", accountant=Li2019()),
    ):
        with monkeypatch.context() as context:
            seen = recorded(context)
            trained = learner(task(epsilon=1.0))
        updates, prices = seen[0][:2]
        sigma = updates.noise_std.double() / updates.clip
        assert updates.clip == trained.settings["clip"]
        assert prices.multiplier == trained.settings["noise_multiplier"] == pytest.approx(float(sigma[0]))
        t = torch.arange(1, 61, dtype=torch.float64)
        power = 1 / 6 if getattr(learner, "schedule", "") == "decreasing" else 0
        torch.testing.assert_close(sigma, sigma[0] * t**power, rtol=1e-6, atol=0)


def test_without_clipping_sgld_has_the_noise_of_dp_sgld(task: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = recorded(monkeypatch)
    Sgld(0.2, "fixed", 1.0, 5, 0.5, STEPS)(task())
    dp_sgld(step=0.2)(task(epsilon=1.0))
    free, private = (given[0] for given in seen)
    assert torch.equal(free.noise_std, private.noise_std)
    assert torch.equal(free.step, private.step)
    assert (free.clip, private.clip) == (math.inf, 1.0)
    # eta times the noise on the mean gradient has variance eta/n
    move = free.step * free.noise_std / 40
    torch.testing.assert_close(move.square(), free.step / 400)


def test_cosine() -> None:
    sizes = cosine(0.4, 100)
    assert (float(sizes[0]), float(sizes[50])) == pytest.approx((0.4, 0.2))
    assert 0 < float(sizes[-1]) < 1e-3


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: dp_sgld(step=None, clip=None), "step and clip are both null"),
        (lambda: dp_sgld(clip=-1.0), "clip must be positive"),
        (lambda: dp_sgld(schedule="cosine"), "schedule must be one of"),
        (lambda: dp_sgld(precision=-1.0), "precision must be finite and >= 0"),
        (lambda: dp_sgd(schedule="harmonic"), "schedule must be one of"),
        (lambda: dp_sgd(momentum=1.0), r"momentum must be in \[0, 1\)"),
        (lambda: dp_sgd(clip=math.inf), "clip must be positive and finite"),
        (lambda: Sgd(0.0, 0.9, 0.0, STEPS), "step must be positive"),
    ],
)
def test_bad_settings(make: Callable[[], object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()
