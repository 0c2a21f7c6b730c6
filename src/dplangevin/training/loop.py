"""The loop that all learners share: noisy clipped gradients of Poisson samples, for all seeds at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.checkpoint import Checkpoint
from dplangevin.gradients import Sums, clipped_sum
from dplangevin.images import scaled
from dplangevin.methods import positive, require
from dplangevin.networks import Network
from dplangevin.training import Task
from dplangevin.training.prices import Prices

AT_ONCE = 1000  # test rows whose logits are taken together


class Updates(NamedTuple):
    """``v <- momentum v + g_t + precision/n theta``, ``theta <- theta - eta_t v``, g_t the `noisy_gradient`.

    step_size, noise_std: eta_t, and the deviation of the noise on the sum of clipped gradients, ``(T,)``.  clip: bound
    on the norm of one example's gradient, inf for none.  precision: of a Gaussian prior, whose gradient needs no data.
    """

    step_size: Tensor
    noise_std: Tensor
    clip: float
    precision: float
    momentum: float = 0.0


def noisy_gradient(
    network: Network,
    theta: Tensor,
    batch: tuple[Tensor, Tensor, Tensor],
    clip: float,
    noise: Tensor,
    size: int,
) -> tuple[Tensor, Sums]:
    """``(1/size) (sum_i clipped(g_i) + noise)``, ``(S, d)``, and the sums behind it.

    batch: x ``(S, B, C, H, W)``, y ``(S, B)`` and the mask ``(S, B)`` of the examples that are there.  noise: ``(S,
    d)``, N(0, (sigma clip)^2 I) with noise multiplier sigma, whatever micro-batches the sum is computed in.  size: tau,
    the expected number of examples, a constant: the number drawn is private.
    """
    sums = clipped_sum(network, theta, *batch, clip)
    return (sums.gradient + noise) / size, sums


@dataclass(frozen=True)
class Steps:
    """Poisson samples: each example is in a step's minibatch with probability tau/n (q), for `epochs` over the data.

    batch: tau, the expected size, in 1..n.  T = floor(n epochs/tau) steps.  measured: how often, evenly spread, the
    test accuracy and the privacy spent are taken; that looks at the test rows and decides nothing.
    """

    batch: int
    epochs: float
    measured: int = 20

    def __post_init__(self) -> None:
        positive(batch=self.batch, epochs=self.epochs, measured=self.measured)
        for name in ("batch", "measured"):
            value = getattr(self, name)
            require(value == int(value), f"{name} must be a whole number, not {value}")

    def rate(self, n: int) -> float:
        require(self.batch <= n, f"batch = {self.batch} is larger than the data set ({n} examples)")
        return self.batch / n

    def count(self, n: int) -> int:
        steps = math.floor(n * self.epochs / self.batch)
        require(steps >= 1, f"epochs = {self.epochs} make no step with batch = {self.batch}: raise epochs")
        return steps

    def measurements(self, n: int) -> set[int]:
        """Steps (1-based) after which the networks are measured, the last one among them."""
        steps = self.count(n)
        return {max(1, round(steps * k / self.measured)) for k in range(1, self.measured + 1)}

    def run(
        self, task: Task, updates: Updates, prices: Prices, keep: Sequence[int] = ()
    ) -> tuple[dict[str, Tensor], list[dict[str, float]]]:
        """Probabilities on the test rows by predictor, and the learning curve; see `Trained`.

        keep: steps (1-based) whose probabilities "average" is the mean of; none, no average.  The state is kept on disk
        now and then, and a run that finds one goes on from it to the same bytes.  ValueError when a chain diverges.
        """
        chain = Chain(task, self, updates, prices, keep)
        checkpoint = Checkpoint(task.folder / f"{task.key}.pt", task.key)
        chain.start(checkpoint.load())
        steps = self.count(len(chain.images))
        with tqdm(total=steps, initial=chain.state["step"], unit="step", mininterval=1, disable=None) as bar:
            while chain.state["step"] < steps:
                chain.advance()
                bar.set_postfix_str(chain.shown)
                bar.update()
                checkpoint.save(chain.snapshot)
        predicted = {"single": chain.probabilities()}
        if keep:
            predicted["average"] = chain.state["summed"] / len(set(keep))
        checkpoint.save(chain.snapshot, force=True)
        return predicted, chain.state["curve"]


class Chain:
    """Stacked networks, one a seed, and all that the next step depends on (`state`)."""

    def __init__(
        self, task: Task, steps: Steps, updates: Updates, prices: Prices, keep: Sequence[int]
    ) -> None:
        self.task, self.steps, self.updates, self.prices = task, steps, updates, prices
        self.images = torch.as_tensor(task.images.x_train, device=task.device)
        self.labels = torch.as_tensor(task.images.y_train, device=task.device)
        self.tests, self.answers = (torch.as_tensor(a) for a in (task.images.x_test, task.images.y_test))
        self.keep, self.measured = set(keep), steps.measurements(len(self.images))
        self.shown = ""
        self.state: dict[str, Any] = {}

    def start(self, saved: dict[str, Any] | None) -> None:
        """Begin, or go on from a snapshot."""
        seeds, device = self.task.seeds, self.task.device
        if saved is None:
            theta = self.task.network.init(self.task.rng, seeds)
            summed = torch.zeros(seeds, len(self.tests), self.task.network.classes)
            saved = {"step": 0, "theta": theta, "velocity": torch.zeros_like(theta), "curve": []}
            saved |= {"summed": summed if self.keep else None, "losses": torch.zeros(2, seeds)}
            saved["rng"] = self.task.rng.get_state()
        self.task.rng.set_state(saved["rng"])
        moved = {name: saved[name].to(device) for name in ("theta", "velocity", "losses")}
        self.state = {**saved, **moved}

    def snapshot(self) -> dict[str, Any]:
        """The state on the CPU, with that of the generator."""
        on_cpu = {name: self.state[name].cpu() for name in ("theta", "velocity", "losses")}
        return {**self.state, **on_cpu, "rng": self.task.rng.get_state()}

    def advance(self) -> None:
        """One step of every network."""
        state, updates, n = self.state, self.updates, len(self.images)
        theta, t = state["theta"], state["step"]
        stream = noise.poisson_stream(
            self.task.rng, self.task.seeds, n, self.steps.rate(n), self.task.network.d, steps=1, block=1
        )
        rows, mask, normals = (part.to(theta.device) for part in next(stream))
        batch = (scaled(self.images[rows]), self.labels[rows], mask)
        added = float(updates.noise_std[t]) * normals[:, 0]
        try:
            gradient, sums = noisy_gradient(
                self.task.network, theta, batch, updates.clip, added, self.steps.batch
            )
        except ValueError as error:
            raise ValueError(f"step {t + 1}: {error} (if the chain diverges, lower its step size)") from error
        gradient += (updates.precision / n) * theta
        state["velocity"] = updates.momentum * state["velocity"] + gradient
        state["theta"] = theta - float(updates.step_size[t]) * state["velocity"]
        state["losses"] = state["losses"] + torch.stack([sums.loss.sum(-1), mask.sum(-1).float()])
        state["step"] = t + 1
        if state["step"] in self.keep:
            state["summed"] += self.probabilities()
        if state["step"] in self.measured:
            self.measure()

    def measure(self) -> None:
        """Append to the learning curve: test accuracy, mean loss of the minibatches since, privacy spent so far."""
        done, (total, seen) = self.state["step"], self.state["losses"]
        right = (self.probabilities().argmax(-1) == self.answers).double().mean(-1)
        spent = self.prices.after(done)
        epoch = done * self.steps.batch / len(self.images)
        for seed, loss in enumerate((total / seen.clamp(min=1)).tolist()):
            row = {"seed": seed, "epoch": epoch, "accuracy": float(right[seed]), "loss": loss, **spent}
            self.state["curve"].append(row)
        self.state["losses"] = torch.zeros_like(self.state["losses"])
        self.shown = f"accuracy {float(right.mean()):.4f}, epsilon {spent['epsilon_add_remove']:.3g}"

    def probabilities(self) -> Tensor:
        return probabilities(self.task.network, self.state["theta"], self.tests)


def probabilities(network: Network, theta: Tensor, tests: Tensor) -> Tensor:
    """Softmax of the logits of uint8 images ``(m, C, H, W)``, ``(S, m, K)`` on the CPU."""
    parts = (scaled(rows.to(theta.device))[None] for rows in tests.split(AT_ONCE))
    return torch.cat([network.logits(theta, part).softmax(-1).cpu() for part in parts], 1)
