"""Noisy clipped gradient descent on Poisson samples, all seeds at once, and what learners of this package share."""

from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.checkpoint import Checkpoint
from dplangevin.finetune.activations import Inputs
from dplangevin.finetune.parts import start
from dplangevin.networks import Network
from dplangevin.privacy import Budget, Guarantee
from dplangevin.training.loop import Steps, noisy_gradient
from dplangevin.training.prices import Prices

AT_ONCE = 1000  # test rows whose logits are taken together


class Task(NamedTuple):
    """What is to be learned, and on what.

    network: its template holds the parameters to start from.  inputs: on `device`.  seeds: independent runs, the
    leading axis S.  folder, key: of the checkpoint, the key naming all that decides the result (a hash).
    """

    network: Network
    inputs: Inputs
    budget: Budget
    seeds: int
    rng: torch.Generator
    device: torch.device
    folder: Path
    key: str


class Tuned(NamedTuple):
    """probability: of the last iterate on the test rows, (S, m, K).  guarantee: what was promised and done."""

    probability: Tensor
    guarantee: Guarantee
    step_size: float
    clip: float
    noise_multiplier: float


class Learner(Protocol):
    """name: none or dp_sgd.  minibatches: of which `run` is not used here but `descend`."""

    name: ClassVar[str]

    @property
    def minibatches(self) -> Steps: ...

    def __call__(self, task: Task) -> Tuned:
        """Train `task.seeds` networks; ValueError where the budget is out of reach."""
        ...


class Descent(NamedTuple):
    """``theta <- theta - (eta/tau) (sum_S clipped(g_i) + N(0, std^2 I))``, S a Poisson sample of expected size tau.

    step_size: eta.  clip: bound on the norm of one example's gradient, inf for none.  noise_std: of the sum.
    """

    step_size: float
    clip: float
    noise_std: float


def descend(task: Task, steps: Steps, descent: Descent, prices: Prices) -> Tensor:
    """Probabilities of the last iterate on the test rows, (S, m, K) on the CPU.

    The state is kept on disk now and then, and a run that finds one goes on from it to the same bytes.  ValueError when
    a chain diverges, naming the step.
    """
    total = steps.count(len(task.inputs.x_train))
    measured = steps.measurements(len(task.inputs.x_train))
    checkpoint = Checkpoint(task.folder / f"{task.key}.pt", task.key)
    state = checkpoint.load() or {
        "step": 0, "theta": start(task.network, task.seeds), "rng": task.rng.get_state()
    }  # fmt: skip
    task.rng.set_state(state["rng"])
    theta, done = state["theta"].to(task.device), state["step"]

    def snapshot() -> dict[str, Any]:
        return {"step": done, "theta": theta.cpu(), "rng": task.rng.get_state()}

    with tqdm(total=total, initial=done, unit="step", mininterval=1, disable=None) as bar:
        while done < total:
            theta = _step(task, steps, descent, theta, done)
            done += 1
            if done in measured:
                bar.set_postfix_str(_shown(task, theta, prices, done))
            bar.update()
            checkpoint.save(snapshot)
    checkpoint.save(snapshot, force=True)
    return probabilities(task.network, theta, task.inputs.x_test)


def _step(task: Task, steps: Steps, descent: Descent, theta: Tensor, done: int) -> Tensor:
    x, y = task.inputs.x_train, task.inputs.y_train
    stream = noise.poisson_stream(
        task.rng, task.seeds, len(x), steps.rate(len(x)), task.network.d, steps=1, block=1
    )
    rows, mask, normals = (part.to(theta.device) for part in next(stream))
    added = descent.noise_std * normals[:, 0]
    try:
        gradient, _ = noisy_gradient(
            task.network, theta, (x[rows], y[rows], mask), descent.clip, added, steps.batch
        )
    except ValueError as error:
        raise ValueError(
            f"step {done + 1}: {error} (if the chain diverges, lower its step size {descent.step_size:g})"
        ) from error
    return theta - descent.step_size * gradient


def _shown(task: Task, theta: Tensor, prices: Prices, done: int) -> str:
    """Test accuracy, at which nothing is decided, and the privacy spent so far."""
    answers = task.inputs.y_test.cpu()
    right = probabilities(task.network, theta, task.inputs.x_test).argmax(-1) == answers
    spent = prices.after(done)["epsilon_add_remove"]
    return f"accuracy {float(right.double().mean()):.4f}, epsilon {spent:.3g}"


def probabilities(network: Network, theta: Tensor, tests: Tensor) -> Tensor:
    """Softmax of the logits of (m, C, H, W), (S, m, K) on the CPU."""
    parts = [network.logits(theta, rows[None]).softmax(-1).cpu() for rows in tests.split(AT_ONCE)]
    return torch.cat(parts, 1)
