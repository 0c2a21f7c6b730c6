"""Which power of the posterior the papers' samplers target: their temperature on a Gaussian posterior.

With ``U(theta) = theta^T H theta/2`` and exact gradients a sampler that targets ``exp(-U/T)`` settles, as its step goes
to 0, at the covariance ``T H^-1``.  The chains below are the kernels' own; for those that are linear in theta the
stationary covariance at a finite step is the solution S of ``S = A S A^T + Q``, beside which the simulation is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import solve_discrete_lyapunov
from torch import Tensor

from dplangevin import random
from dplangevin.kernels.sgfs import SgfsState, sgfs
from dplangevin.kernels.sghmc import SghmcState, sghmc
from dplangevin.kernels.sgld import SgldState, sgld
from dplangevin.kernels.sgnht import SgnhtState, sgnht
from dplangevin.statistics import Interval, t_interval


class Chain(NamedTuple):
    """One sampler on the Gaussian posterior of precision H ``(d, d)`` at one step size eta.

    state: its first state, theta ``(R, 1, d)``.  step: ``(state, rng) -> state``.  linear: ``A, Q`` of the chain
    ``x' = A x + N(0, Q)`` whose first d coordinates are theta; for SGNHT, which is not linear, those of SGHMC.
    """

    state: Any
    step: Callable[[Any, torch.Generator], Any]
    linear: tuple[np.ndarray, np.ndarray]


def langevin(theta: Tensor, precision: Tensor, eta: float, *, records: int, noise_variance: float) -> Chain:
    """``theta - eta grad U/records + N(0, eta noise_variance/records)``: eq. 4.1 of wang2015 (records 1, variance 1),
    Algorithm 1 of li2019 (N, 1) and of ryffel2022 (1, 2 sigma^2).

    Differs: li2019 subtracts the gradient of ln l and ln p; read as minus the logarithms, or theta runs away.
    """
    kernel, std = sgld(), math.sqrt(eta * noise_variance / records)

    def step(state: SgldState, rng: torch.Generator) -> SgldState:
        return kernel.step(state, state.theta @ precision / records, std * normals(theta, rng), column(eta))

    identity, h = np.eye(len(precision)), precision.numpy()
    return Chain(kernel.init(theta), step, (identity - eta / records * h, std**2 * identity))


def hamiltonian(
    theta: Tensor,
    precision: Tensor,
    eta: float,
    *,
    friction: Callable[[float], float],
    thermostat: bool,
    guess: float = 0.0,
    gradient_noise: np.ndarray | None = None,
) -> Chain:
    """Eq. 4.4 of wang2015 with noise N(0, 2 (a - b) eta), or 4.5 with a thermostat and N(0, 2 a eta), as both print it.

    friction: a of eta.  guess: B of eq. 4.2, which makes b = B sqrt(eta).  gradient_noise: covariance ``(d, d)`` of the
    stochastic gradient; None: the gradient is exact.
    """
    a = friction(eta)
    kernel = sgnht() if thermostat else sghmc(a)
    start = torch.zeros_like(theta), torch.full_like(theta[..., :1], a)
    state = SgnhtState(theta, *start) if thermostat else SghmcState(theta, start[0])
    identity, zero, h = np.eye(len(precision)), np.zeros_like(precision), precision.numpy()
    injected = 2 * (a - guess * math.sqrt(eta)) * eta
    of_gradient = zero if gradient_noise is None else eta**2 * gradient_noise
    root = torch.tensor(np.linalg.cholesky(injected * identity + of_gradient))

    def step(state: Any, rng: torch.Generator) -> Any:
        return kernel.step(state, state.theta @ precision, normals(theta, rng) @ root.T, column(eta))

    drift = np.block([[identity, identity], [-eta * h, (1 - a) * identity]])
    return Chain(state, step, (drift, np.block([[zero, zero], [zero, injected * identity + of_gradient]])))


def fisher_scoring(
    theta: Tensor, precision: Tensor, eta: float, *, records: int, batch: int, noise: float, sampled: bool
) -> Chain:
    """Algorithm 4 of wang2015 with F = I and the Fisher information known, noise ``noise F F^T/eta`` on the gradient.

    sampled: with the noise N(0, N H/tau) that a minibatch of tau records adds to the gradient by the sampler's model.
    """
    identity, h = torch.eye(len(precision), dtype=theta.dtype), precision
    kernel = sgfs(identity, records, batch)
    gradient_noise = noise / eta * identity + (records / batch * h if sampled else 0 * h)
    root = torch.linalg.cholesky(gradient_noise)
    fisher, kappa = h / records, torch.zeros(1, 1, dtype=theta.dtype)

    def step(state: SgfsState, rng: torch.Generator) -> SgfsState:
        shaken = normals(theta, rng) @ root.T
        return kernel.step(state, state.theta @ h, shaken, column(eta), fisher, kappa)

    gain = 2 * np.linalg.inv((1 + records / batch) * h.numpy() + 4 / eta * identity.numpy())
    linear = identity.numpy() - gain @ h.numpy(), gain @ gradient_noise.numpy() @ gain.T
    return Chain(kernel.init(theta, fisher[None, None]), step, linear)


def normals(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype)


def column(eta: float) -> Tensor:
    return torch.full((1, 1), eta, dtype=torch.float64)


class Sampler(NamedTuple):
    """One row of the table of samplers; limit: the temperature T of its target ``exp(-U/T)`` as the step goes to 0."""

    paper: str
    equation: str
    variant: str  # printed or proper
    setting: str  # what is chosen besides the step; gradients are exact unless it says otherwise
    target: str
    limit: float
    chain: Callable[[Tensor, Tensor, float], Chain]


@dataclass(frozen=True)
class Temperature:
    """Temperature of every sampler, simulated and in closed form, at the step sizes of `steps`, in the paper's units.

    On N(0, 1) and on N(0, [[1, r], [r, 1]]), r the `correlation`, there along the two principal axes: the variance of
    the chain over that of the posterior, unitless.  `chains` independent chains run for `settle` + `keep` relaxation
    times of the slowest direction and are averaged over the latter; intervals are 95 % Student over chains.
    friction: A of eq. 4.2 and 4.3, which makes ``a = A sqrt(eta)`` of 4.4 and 4.5.  momentum_loss: a once held fixed;
    as it keeps ``E v^2 = eta``, SGNHT then settles at ``T = (1 + sqrt(1 - 2 a))/2``, below 1, as eta goes to 0.
    records, batch: N and tau.  noise_variance: sigma^2 of ryffel2022, which targets ``exp(-L/sigma^2)`` and is not
    meant to sample the posterior.

    Two more units give SGHMC and SGNHT a stochastic gradient (see `noisy`).  gradient_noise: B, below the friction A.
    guesses: the values of B-hat that SGHMC subtracts, below A.
    """

    steps: Mapping[str, Sequence[float]]
    chains: int
    settle: float
    keep: float
    correlation: float
    friction: float
    momentum_loss: float
    records: int
    batch: int
    noise_variance: float
    gradient_noise: float = 0.5
    guesses: Sequence[float] = (0.0, 0.25, 0.5, 0.75)

    def __post_init__(self) -> None:
        if unknown := set(self.steps) ^ set(self.samplers()):
            raise ValueError(f"steps must name each sampler once, {sorted(unknown)} do not match")
        if not -1 < self.correlation < 1:
            raise ValueError(f"correlation must be in (-1, 1), not {self.correlation}")

    def samplers(self) -> dict[str, Sampler]:
        n, a, s2 = self.records, self.momentum_loss, self.noise_variance
        plain, averaged = partial(langevin, records=1), partial(langevin, records=n)
        momentum = partial(hamiltonian, friction=lambda eta: self.friction * math.sqrt(eta))
        fixed = partial(hamiltonian, friction=lambda eta: a)
        scoring = partial(fisher_scoring, records=n, batch=n, sampled=False)
        sampled = partial(fisher_scoring, records=n, batch=self.batch, sampled=True)
        whole, half, quarter = ("exp(-U)", 1.0), ("exp(-2U)", 0.5), ("exp(-4U)", 0.25)
        cold = (1 + math.sqrt(1 - 2 * a)) / 2
        chilled, diluted = (f"exp(-{1 / cold:.4g}U)", cold), (f"exp(-L/{s2:g})", s2)
        sgld, li, ryffel = ("wang2015", "eq. 4.1"), ("li2019", "Alg. 1"), ("ryffel2022", "Alg. 1")
        sghmc, sgnht, sgfs = (("wang2015", where) for where in ("eq. 4.4", "eq. 4.5", "Alg. 4"))
        exact, lost, power = "exact gradients", f"a = {a:g}", f"σ² = {s2:g}"
        table = {
            "sgld": (*sgld, "printed", exact, *half, partial(plain, noise_variance=1.0)),
            "sgld_proper": (*sgld, "proper", exact, *whole, partial(plain, noise_variance=2.0)),
            "li": (*li, "printed", exact, *half, partial(averaged, noise_variance=1.0)),
            "li_proper": (*li, "proper", exact, *whole, partial(averaged, noise_variance=2.0)),
            "sgfs": (*sgfs, "printed", exact, *quarter, partial(scoring, noise=1.0)),
            "sgfs_minibatch": (*sgfs, "printed", "minibatch noise", *quarter, partial(sampled, noise=1.0)),
            "sgfs_proper": (*sgfs, "proper", exact, *whole, partial(scoring, noise=4.0)),
            "sghmc": (*sghmc, "printed", exact, *whole, partial(momentum, thermostat=False)),
            "sgnht": (*sgnht, "printed", exact, *whole, partial(momentum, thermostat=True)),
            "sgnht_fixed": (*sgnht, "printed", lost, *chilled, partial(fixed, thermostat=True)),
            "ryffel": (*ryffel, "printed", power, *diluted, partial(plain, noise_variance=2 * s2)),
        }
        return {name: Sampler(*row) for name, row in table.items()}

    def noisy(self) -> dict[str, list[Sampler]]:
        """Unit: SGHMC or SGNHT with stochastic gradients N(grad U, covariance) and a = A sqrt(eta), h = sqrt(eta).

        covariance: B, as eq. 4.2 prints it, or 2 B/h, which adds the diffusion 2 B to the momentum, as in Chen et al.
        (2014).  SGHMC settles at T = 1 - B-hat/A as h goes to 0 with the former, at 1 + (B - B-hat)/A with the latter.
        anisotropic: d B in the narrow direction of the posterior and 0 in the others, of mean B; the axes then have no
        common temperature, and limit is nan.
        """
        a, b = self.friction, self.gradient_noise

        def chain(
            theta: Tensor, precision: Tensor, eta: float, order: int, along: bool, **options: Any
        ) -> Chain:
            """order: of the covariance in 1/h. along: in the narrow direction of the posterior alone."""
            axis = np.linalg.eigh(precision.numpy())[1][:, -1:]
            shape = len(axis) * axis @ axis.T if along else np.eye(len(axis))
            noise = b * (2 / math.sqrt(eta)) ** order * shape
            return hamiltonian(
                theta,
                precision,
                eta,
                friction=lambda eta: a * math.sqrt(eta),
                gradient_noise=noise,
                **options,
            )

        def sampler(
            setting: str, limit: float, order: int, along: bool = False, guess: float | None = None
        ) -> Sampler:
            of = partial(chain, order=order, along=along, thermostat=guess is None, guess=guess or 0.0)
            equation = "eq. 4.5" if guess is None else "eq. 4.4"
            power = "" if limit == 1 else f"{1 / limit:.4g}"
            target = "none" if math.isnan(limit) else f"exp(-{power}U)"
            return Sampler("wang2015", equation, "printed", setting, target, limit, of)

        guessed = [(0, guess, 1 - guess / a) for guess in self.guesses]
        guessed += [(1, guess, 1 + (b - guess) / a) for guess in (0.0, b)]
        covariance = f"covariance B = {b:g}", f"covariance 2B/h, B = {b:g}"
        return {
            "sghmc_noise": [
                sampler(f"{covariance[order]}, B̂ = {guess:g}", limit, order, guess=guess)
                for order, guess, limit in guessed
            ],
            "sgnht_noise": [
                *(sampler(covariance[order], 1.0, order) for order in (0, 1)),
                sampler(f"{covariance[1]}, anisotropic", math.nan, 1, along=True),
            ],
        }

    def units(self) -> list[str]:
        return [*self.samplers(), *self.noisy()]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        """One row per problem, step size and kind (simulated, closed form); value, low, high: the temperature.

        With stochastic gradients the kind ends in ", noisy gradient", and SGHMC is not simulated.
        """
        noisy, name = self.noisy().get(unit, []), unit.removesuffix("_noise")
        rng, of = random.generator(seed, f"temperature {unit}"), ", noisy gradient" if noisy else ""
        r = self.correlation
        problems = {("1-d",): [[1.0]], ("2-d, narrow axis", "2-d, wide axis"): [[1.0, r], [r, 1.0]]}
        rows = []
        samplers = noisy or [self.samplers()[unit]]
        for sampler, (names, covariance), eta in product(samplers, problems.items(), self.steps[name]):
            if math.isnan(sampler.limit) and len(names) == 1:
                continue  # one direction has no anisotropic noise
            kept = dict(zip(Sampler._fields[:-1], sampler[:-1], strict=True))
            variances, axes = np.linalg.eigh(covariance)
            theta = torch.zeros(self.chains, 1, len(names), dtype=torch.float64)
            chain = sampler.chain(theta, torch.tensor(np.linalg.inv(covariance)), eta)
            found: dict[str, list[Interval]] = {}
            linear = not isinstance(chain.state, SgnhtState)
            if not (noisy and linear):
                squares = self.simulate(chain, torch.tensor(axes), rng) / variances
                found["simulated"] = [t_interval(column) for column in squares.T]
            if linear:
                exact = np.diag(axes.T @ stationary(chain)[: len(names), : len(names)] @ axes) / variances
                found["closed form"] = [Interval(*[float(value)] * 3) for value in exact]
            for j, problem in enumerate(names):
                base = {"sampler": name, **kept, "problem": problem, "step": float(eta)}
                rows += [{**base, "kind": kind + of, **values[j].columns()} for kind, values in found.items()]
        return rows

    def simulate(self, chain: Chain, axes: Tensor, rng: torch.Generator) -> np.ndarray:
        """Mean square of every chain along every axis, ``(chains, d)``."""
        relaxation = -1 / math.log(float(np.abs(np.linalg.eigvals(chain.linear[0])).max()))
        settle, keep = (math.ceil(times * relaxation) for times in (self.settle, self.keep))
        state, total = chain.state, torch.zeros_like(chain.state.theta)
        for t in range(settle + keep):
            state = chain.step(state, rng)
            if t >= settle:
                total += (state.theta @ axes).square()
        return (total[:, 0] / keep).numpy()


def stationary(chain: Chain) -> np.ndarray:
    """Stationary covariance of a linear chain: S with ``S = A S A^T + Q``."""
    return solve_discrete_lyapunov(*chain.linear)
