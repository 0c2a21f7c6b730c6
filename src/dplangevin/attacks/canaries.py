r"""Canaries in one training of a network, attacked by an observer of every noisy sum.

A canary is an image whose pixels are 0 or 255 by fair coins, with a random label.  It takes the place of a
training image, also of one without a label.  It is in the data with probability 1/2, independently of the
others.  A canary that is not in the data contributes nothing to any sum, while n stays.

The code that trains is the code that is attacked: `Planted` wraps the problem, and `Problem.around` shows the
attacker what the mechanism releases.  The attacker knows all images and labels, the settings, and all iterates
theta_t and noisy sums G_t.  He knows neither the minibatches nor which canaries are in the data.

Let g_j be the clipped gradient of canary j at theta_t, q the sampling rate and T the number of steps.  The other
contributions to G_t, with the noise, have about the mean::

    M = q sum_(known records) g + q/2 sum_(canaries) g

The attacker estimates the first sum in every step, by a random sample as large as a minibatch.  So ``G_t - M``
has about the covariance::

    Sigma = noise_std^2 I + 2 q sum_(known records) g g^T + (q/2 + T q^2/4) sum_(canaries) g g^T

The term with T is there because the canaries in the data are the same in all steps.  The attacker estimates Sigma
from other random samples, every few steps.  With ``z_j = g_j^T Sigma^-1 (G_t - M)``, canary j has the sum::

    sum_t log(1 - q + q exp(z_j - v_j/2)),    v_j = ||g_j||^2 (mean of z^2)/(mean of ||g||^2)

Both means are over the canaries.  If the other contributions are Gaussian, this is about the log-likelihood
ratio of the noisy sums.  The score is this sum minus its mean over the canaries with the same label, because an
error of M moves their sums alike.  `attacks.one_run` holds for any scores, so approximations cost power only.

Differs: steinke2023 scores a canary by the inner product of its gradient with the sum.

Source: steinke2023, Algorithm 1.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.func import functional_call, jvp

from dplangevin.checks import require
from dplangevin.engine.clipped import Sums as Clipped
from dplangevin.engine.clipped import clipped_sum
from dplangevin.problems import DefaultSteps, Facts, Sums
from dplangevin.problems.chain import Chain, Kernel, State
from dplangevin.problems.gan import GanProblem
from dplangevin.problems.network import AT_ONCE, NetworkProblem, as_inputs
from dplangevin.problems.networks import named
from dplangevin.random import Batch

OfImages = NetworkProblem | GanProblem
OfImagesT = TypeVar("OfImagesT", bound=OfImages)


def with_canaries(problem: OfImagesT, count: int, rng: torch.Generator) -> OfImagesT:
    """Return the problem with canaries in the place of its first `count` records.

    - `problem`: NetworkProblem or GanProblem, of uint8 images, each of which is a record.
    - `count`: m.
    - `rng`: generator of pixels and labels.
    """
    require(problem.x.dtype == torch.uint8, "canaries need images of uint8 pixels")
    n = len(problem.x)
    if isinstance(problem, GanProblem):
        require(
            problem.rows.shape[1] == n and bool((problem.rows == torch.arange(n)).all()),
            f"canaries need a GAN whose records are its {n} images, in their order: labels must be 'private'",
        )
    x, y = problem.x.clone(), problem.y.clone()
    pixels = torch.randint(2, (count, *problem.network.shape), generator=rng, dtype=torch.uint8)
    x[:count] = 255 * pixels
    y[..., :count] = torch.randint(problem.facts.classes, (count,), generator=rng)
    return replace(problem, x=x, y=y)


class Attacker:
    """What the attacker computes while he watches one chain.

    - `sums`: (m,), float64, the sums of the module's docstring so far.
    """

    def __init__(
        self,
        problem: OfImages,
        canaries: int,
        chain: Chain,
        rng: torch.Generator,
        *,
        records: int = 192,
        own: int = 64,
        every: int = 10,
    ) -> None:
        """Prepare the attack.

        - `problem`: NetworkProblem or GanProblem on the CPU, of `with_canaries`.
        - `canaries`: m.
        - `chain`: the public settings of the chain.
        - `rng`: generator of the samples; not that of the training.
        - `records`, `own`: number of known records, and of canaries, that estimate Sigma.
        - `every`: number of steps after which Sigma, and the canaries' norms and their sum, are computed again.
        """
        self.problem, self.count, self.chain, self.rng = problem, canaries, chain, rng
        self.records, self.own, self.every = records, own, every
        self.rate = chain.sampling.rate(problem.facts.n)
        self.x, self.y = as_inputs(problem.x[:canaries]), problem.y.reshape(-1, problem.facts.n)[0]
        self.sums = torch.zeros(canaries, dtype=torch.float64)

    @torch.no_grad()
    def see(self, t: int, theta: Tensor, noisy: Tensor) -> None:
        """Add the log-likelihood ratios of step t = 0, 1, ...

        - `theta`: (at least d,), theta_t; only its first d coordinates, those of the network, are used.
        - `noisy`: (d,), G_t.
        """
        theta = theta[: self.problem.network.d]
        if t % self.every == 0:
            self.estimate(t, theta)
        rest = noisy - self.others(theta) - self.rate / 2 * self.total
        inner = self.slopes(theta, self.weighed(rest)) * self.shortening
        square = inner.square().mean() * self.relative
        self.sums += torch.log1p(self.rate * torch.expm1(inner - square / 2))

    @property
    def scores(self) -> Tensor:
        """The scores ``(m,)``, float64; higher for canaries that seem to be in the data."""
        same = torch.nn.functional.one_hot(self.y[: self.count], self.problem.network.classes).double()
        return self.sums - same @ ((same.mT @ self.sums) / same.sum(0).clamp(min=1))

    def others(self, theta: Tensor) -> Tensor:
        """Return an estimate of the known records' mean contribution, from a sample of its own, ``(d,)``.

        A sample that Sigma is estimated from, too, would make z_j biased.
        """
        size = self.chain.sampling.size(self.problem.facts.n)
        rows, clip = self.drawn(size), torch.tensor([self.chain.clip])
        total = self.problem.clipped_sum(theta[None, None], rows[None], None, clip).gradient[0, 0]
        return (self.rate * (self.problem.facts.n - self.count) / size * total).to(theta.dtype)

    def drawn(self, size: int) -> Tensor:
        """Return the indices of known records, drawn with replacement, ``(size,)``."""
        known = self.problem.facts.n - self.count
        return self.count + torch.randint(known, (size,), generator=self.rng)

    def estimate(self, t: int, theta: Tensor) -> None:
        """Estimate Sigma, and compute the norms and the sum of the canaries' gradients."""
        n = self.problem.facts.n
        own = torch.randint(self.count, (self.own,), generator=self.rng)
        gradients = self.gradients(theta, torch.cat([self.drawn(self.records), own]))
        share = 1 - self.count / n
        # Of the known records: a minibatch, and the error of the mean, which is as large. Of the canaries: a
        # minibatch, and the T steps that have the same canaries in the data.
        weights = [
            self.rate * n * share * (1 + share) / self.records,
            self.rate * self.count / 2 / self.own * (1 + self.rate * len(self.chain.step) / 2),
        ]
        weight = torch.tensor(weights).repeat_interleave(torch.tensor([self.records, self.own]))
        self.factors = weight.sqrt()[:, None] * gradients
        self.variance = float(self.chain.noise_std[t]) ** 2
        gram = (self.factors @ self.factors.mT).double()
        gram.diagonal().add_(self.variance)
        self.cholesky = torch.linalg.cholesky(gram)
        sums = self.clipped(theta[None], self.x[None], self.y[None, : self.count])
        self.total, norms = sums.gradient[0].to(theta.dtype), sums.norm[0]
        self.shortening = (self.chain.clip / norms).clamp(max=1.0)
        squares = (norms * self.shortening).square()
        self.relative = squares / squares.mean()

    def gradients(self, theta: Tensor, rows: Tensor) -> Tensor:
        """Return the clipped gradient of each record, ``(len(rows), d)``, by the sum that trains."""
        x, y = as_inputs(self.problem.x[rows]), self.y[rows]
        return self.clipped(theta.expand(len(rows), -1), x[:, None], y[:, None]).gradient.to(theta.dtype)

    def weighed(self, vector: Tensor) -> Tensor:
        """Return ``Sigma^-1 vector`` by the identity of Woodbury."""
        within = torch.cholesky_solve((self.factors @ vector).double()[:, None], self.cholesky)[:, 0]
        return (vector - within.to(vector.dtype) @ self.factors) / self.variance

    def clipped(self, theta: Tensor, x: Tensor, y: Tensor) -> Clipped:
        """Return `engine.clipped.clipped_sum` of all examples, with the loss and the clip of the training.

        - `theta`: (S, d), parameters of S networks.
        - `x`: (S, B, ...), images as the network takes them.
        - `y`: (S, B), labels.
        """
        mask = torch.ones_like(y, dtype=torch.bool)
        network, loss = self.problem.network, self.problem.loss
        return clipped_sum(network, theta, x, y, mask, self.chain.clip, loss_of=loss)

    def slopes(self, theta: Tensor, direction: Tensor) -> Tensor:
        """Return the derivative of each canary's loss along a direction, ``(m,)`` in float64.

        Automatic differentiation goes forward.  So it needs no gradient of a single canary.
        """
        module, found = self.problem.network.module, []
        for x, y in zip(self.x.split(AT_ONCE), self.y[: self.count].split(AT_ONCE), strict=True):

            def logits(theta: Tensor, x: Tensor = x) -> Tensor:
                return functional_call(module, named(module, theta), (x,))

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, at the first use
                z, along = jvp(logits, (theta,), (direction,))  # type: ignore[misc]
            _, gradient = self.problem.loss(z.double(), y)
            found.append((gradient * along).sum(1))
        return torch.cat(found)


@dataclass(frozen=True)
class Planted(DefaultSteps):
    """A `Problem` whose first records are canaries, of which some are not in the data.

    - `included`: bool Tensor (m,), False for a canary that contributes nothing.
    - `attacker`: Attacker or None, who sees every noisy sum.
    """

    problem: OfImages
    included: Tensor
    attacker: Attacker | None = None

    @property
    def y_test(self) -> Tensor:
        return self.problem.y_test

    @property
    def facts(self) -> Facts:
        return self.problem.facts

    @property
    def device(self) -> torch.device:
        return self.problem.device

    def to(self, device: torch.device) -> "Planted":
        return replace(self, problem=self.problem.to(device), included=self.included.to(device))

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        return self.problem.init(seeds, rng)

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor | None) -> Sums:
        """Return the problem's sum without the canaries that are not in the data.

        See `Problem.clipped_sum`.
        """
        present = torch.ones(self.facts.n, dtype=torch.bool, device=self.device)
        present[: len(self.included)] = self.included
        there = present[rows][:, None].expand(-1, theta.shape[1], -1)
        return self.problem.clipped_sum(theta, rows, there if mask is None else mask & there, clip)

    def predict(self, theta: Tensor) -> Tensor:
        return self.problem.predict(theta)

    def around(self, kernel: Kernel, chains: Sequence[Chain]) -> Kernel:
        kernel = self.problem.around(kernel, chains)
        return kernel if self.attacker is None else Watched(kernel, self.attacker)


class Watched:
    """A kernel that shows theta_t and G_t of its only chain to an attacker before each step."""

    def __init__(self, kernel: Kernel, attacker: Attacker) -> None:
        self.kernel, self.attacker = kernel, attacker

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        return self.kernel.init(theta, rng)

    def step(self, state: Any, noisy: Tensor, t: int, batch: Batch) -> State:
        self.attacker.see(t, state[0][0, 0], noisy[0, 0])
        return self.kernel.step(state, noisy, t, batch)
