"""The temperature that the papers' samplers target, measured on a Gaussian posterior.

A sampler with exact gradients of ``U(theta) = theta^T H theta/2`` that targets ``exp(-U/T)`` has the stationary
covariance ``T H^-1`` as steps go to 0. The chains use the package's own kernels; for a linear chain, the covariance at
a finite step solves ``S = A S A^T + Q``.
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
from dplangevin.papers.statistics import Interval, t_interval
from dplangevin.samplers.kernels.stochastic import (
    SgfsState,
    SghmcState,
    SgldState,
    SgnhtState,
    sgfs,
    sghmc,
    sgld,
    sgnht,
)


class LinearChain(NamedTuple):
    """One sampler on the Gaussian posterior of precision H ``(d, d)`` at one step size eta."""

    state: Any  # first state, with theta (R, 1, d)
    step: Callable[[Any, torch.Generator], Any]  # (state, rng) -> state
    linear: tuple[np.ndarray, np.ndarray]  # A, Q of x' = A x + N(0, Q), theta first; SGNHT has those of SGHMC


def langevin(
    theta: Tensor, precision: Tensor, eta: float, *, records: int, noise_variance: float
) -> LinearChain:
    """Return the chain ``theta - eta grad U/records + N(0, eta noise_variance/records)`` from theta ``(R, 1, d)``.

    Differs: li2019 subtracts the gradient of ln l + ln p, which diverges; we read minus the logarithms.
    Source: wang2015, eq. 4.1 (1, 1); li2019, Algorithm 1 (N, 1); ryffel2022, Algorithm 1 (1, 2 sigma^2).
    """
    kernel, std = sgld(), math.sqrt(eta * noise_variance / records)

    def step(state: SgldState, rng: torch.Generator) -> SgldState:
        return kernel.step(state, state.theta @ precision / records, std * normals(theta, rng), column(eta))

    identity, h = np.eye(len(precision)), precision.numpy()
    return LinearChain(kernel.init(theta), step, (identity - eta / records * h, std**2 * identity))


def hamiltonian(
    theta: Tensor,  # start, (R, 1, d)
    precision: Tensor,  # H, (d, d)
    eta: float,
    *,
    friction: Callable[[float], float],  # a as a function of eta
    thermostat: bool,
    guess: float = 0.0,  # B-hat of eq. 4.2, the assumed gradient noise; b = B-hat sqrt(eta)
    gradient_noise: np.ndarray | float = 0.0,  # covariance (d, d)
) -> LinearChain:
    """Return SGHMC with N(0, 2 (a - b) eta), eq. 4.4 of wang2015, or SGNHT with N(0, 2 a eta), eq. 4.5, as printed."""
    a = friction(eta)
    kernel = sgnht() if thermostat else sghmc(a)
    start = torch.zeros_like(theta), torch.full_like(theta[..., :1], a)
    state = SgnhtState(theta, *start) if thermostat else SghmcState(theta, start[0])
    identity, zero, h = np.eye(len(precision)), np.zeros_like(precision), precision.numpy()
    covariance = 2 * (a - guess * math.sqrt(eta)) * eta * identity + eta**2 * gradient_noise
    root = torch.tensor(np.linalg.cholesky(covariance))

    def step(state: Any, rng: torch.Generator) -> Any:
        return kernel.step(state, state.theta @ precision, normals(theta, rng) @ root.T, column(eta))

    drift = np.block([[identity, identity], [-eta * h, (1 - a) * identity]])
    return LinearChain(state, step, (drift, np.block([[zero, zero], [zero, covariance]])))


def fisher_scoring(
    theta: Tensor, precision: Tensor, eta: float, *, records: int, batch: int, noise: float, sampled: bool
) -> LinearChain:
    """Return Algorithm 4 of wang2015 with F = I, a known Fisher information and N(0, ``noise F F^T/eta``).

    `sampled` adds N(0, N H/tau), which a minibatch of tau records has in the model of the sampler.
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
    return LinearChain(kernel.init(theta, fisher[None, None]), step, linear)


def normals(like: Tensor, rng: torch.Generator) -> Tensor:
    """Draw standard normals of the shape and type of `like`."""
    return torch.randn(like.shape, generator=rng, dtype=like.dtype)


def column(eta: float) -> Tensor:
    """Return the step size as a ``(1, 1)`` tensor."""
    return torch.full((1, 1), eta, dtype=torch.float64)


class Sampler(NamedTuple):
    """One row of the table of samplers; `limit` is the temperature T of its target as the step goes to 0."""

    paper: str
    equation: str
    variant: str  # printed or proper
    setting: str  # chosen values except the step; gradients are exact unless stated
    target: str
    limit: float
    chain: Callable[[Tensor, Tensor, float], LinearChain]


def sampler(where: str, setting: str, limit: float, chain: Any) -> Sampler:
    """Return the row of a sampler that targets exp(-U/limit); `where` has paper, equation and variant."""
    paper, equation, variant = where.split(", ")
    power = "" if limit == 1 else f"{1 / limit:.4g}"
    target = "none" if math.isnan(limit) else f"exp(-{power}U)"
    return Sampler(paper, equation, variant, setting, target, limit, chain)


@dataclass(frozen=True)
class Temperature:
    """Variance of every sampler over that of the posterior, simulated and in closed form, at the steps of its paper.

    The posteriors are N(0, 1) and N(0, [[1, r], [r, 1]]) along its two axes, with 95 % Student intervals over chains.
    With a fixed friction a, SGNHT keeps ``E v^2 = eta``, so its temperature goes to ``(1 + sqrt(1 - 2 a))/2``.
    """

    steps: Mapping[str, Sequence[float]]  # sampler -> step sizes, in the unit of the paper
    chains: int  # independent
    settle: float  # relaxation times before the average
    keep: float  # relaxation times of the average
    correlation: float  # r, in (-1, 1)
    friction: float  # A of eq. 4.2 and 4.3 of wang2015; a = A sqrt(eta) in eq. 4.4 and 4.5
    momentum_loss: float  # a of the one SGNHT variant that holds a fixed
    records: int  # N
    batch: int  # tau
    noise_variance: float  # sigma^2 of ryffel2022
    gradient_noise: float = 0.5  # B, the noise of the stochastic gradient, below A
    guesses: Sequence[float] = (0.0, 0.25, 0.5, 0.75)  # the values of B-hat that SGHMC subtracts, below A

    def samplers(self) -> dict[str, Sampler]:
        n, a, s2 = self.records, self.momentum_loss, self.noise_variance
        sgld, averaged = partial(partial, langevin, records=1), partial(partial, langevin, records=n)
        momentum = partial(partial, hamiltonian, friction=self.damping)
        sgfs = partial(partial, fisher_scoring, records=n, batch=n, sampled=False)
        minibatch, exact = {"batch": self.batch, "sampled": True}, "exact gradients"
        fixed = partial(hamiltonian, friction=lambda eta: a, thermostat=True)
        last = sampler("ryffel2022, Alg. 1, printed", f"σ² = {s2:g}", s2, sgld(noise_variance=2 * s2))
        return {
            "sgld": sampler("wang2015, eq. 4.1, printed", exact, 0.5, sgld(noise_variance=1.0)),
            "sgld_proper": sampler("wang2015, eq. 4.1, proper", exact, 1.0, sgld(noise_variance=2.0)),
            "li": sampler("li2019, Alg. 1, printed", exact, 0.5, averaged(noise_variance=1.0)),
            "li_proper": sampler("li2019, Alg. 1, proper", exact, 1.0, averaged(noise_variance=2.0)),
            "sgfs": sampler("wang2015, Alg. 4, printed", exact, 0.25, sgfs(noise=1.0)),
            "sgfs_minibatch": sampler(
                "wang2015, Alg. 4, printed", "minibatch noise", 0.25, sgfs(noise=1.0, **minibatch)
            ),
            "sgfs_proper": sampler("wang2015, Alg. 4, proper", exact, 1.0, sgfs(noise=4.0)),
            "sghmc": sampler("wang2015, eq. 4.4, printed", exact, 1.0, momentum(thermostat=False)),
            "sgnht": sampler("wang2015, eq. 4.5, printed", exact, 1.0, momentum(thermostat=True)),
            "sgnht_fixed": sampler(
                "wang2015, eq. 4.5, printed", f"a = {a:g}", (1 + math.sqrt(1 - 2 * a)) / 2, fixed
            ),
            "ryffel": last._replace(target=f"exp(-L/{s2:g})"),
        }

    def damping(self, eta: float) -> float:
        """Return the friction a = A sqrt(eta)."""
        return self.friction * math.sqrt(eta)

    def noisy(self) -> dict[str, list[Sampler]]:
        """Return, for two tasks, SGHMC or SGNHT with stochastic gradients N(grad U, covariance), a = A sqrt(eta).

        The covariance is B, as eq. 4.2 of wang2015 prints it, or 2 B/h with h = sqrt(eta), as in Chen et al. (2014). As
        h goes to 0, SGHMC goes to 1 - B-hat/A with the first, and to 1 + (B - B-hat)/A with the second. "anisotropic":
        d B in the narrow direction only, so the axes have no common temperature (nan).
        """
        a, b = self.friction, self.gradient_noise

        def noisy(order: int, thermostat: bool, along: bool = False, guess: float = 0.0) -> Any:
            """Return the chain with this gradient noise, `order` being the power of 1/h in the covariance."""

            def chain(theta: Tensor, precision: Tensor, eta: float) -> LinearChain:
                axis = np.linalg.eigh(precision.numpy())[1][:, -1:]
                shape = len(axis) * axis @ axis.T if along else np.eye(len(axis))
                noise = b * (2 / math.sqrt(eta)) ** order * shape
                options: dict[str, Any] = {"guess": guess, "gradient_noise": noise, "thermostat": thermostat}
                return hamiltonian(theta, precision, eta, friction=self.damping, **options)

            return chain

        guessed = [(0, guess, 1 - guess / a) for guess in self.guesses]
        guessed += [(1, guess, 1 + (b - guess) / a) for guess in (0.0, b)]
        covariance = f"covariance B = {b:g}", f"covariance 2B/h, B = {b:g}"
        sghmc, sgnht = "wang2015, eq. 4.4, printed", "wang2015, eq. 4.5, printed"
        aligned = noisy(1, True, along=True)
        return {
            "sghmc_noise": [
                sampler(sghmc, f"{covariance[order]}, B̂ = {guess:g}", limit, noisy(order, False, guess=guess))
                for order, guess, limit in guessed
            ],
            "sgnht_noise": [
                *(sampler(sgnht, covariance[order], 1.0, noisy(order, True)) for order in (0, 1)),
                sampler(sgnht, f"{covariance[1]}, anisotropic", math.nan, aligned),
            ],
        }

    def units(self) -> list[str]:
        return [*self.samplers(), *self.noisy()]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        """Return one row for each problem, step size and kind; with stochastic gradients SGHMC is not simulated."""
        noisy, name = self.noisy().get(unit, []), unit.removesuffix("_noise")
        rng, of = random.generator(seed, f"temperature {unit}"), ", noisy gradient" if noisy else ""
        r = self.correlation
        problems = {("1-d",): [[1.0]], ("2-d, narrow axis", "2-d, wide axis"): [[1.0, r], [r, 1.0]]}
        rows = []
        samplers = noisy or [self.samplers()[unit]]
        for sampler, (names, covariance), eta in product(samplers, problems.items(), self.steps[name]):
            if math.isnan(sampler.limit) and len(names) == 1:
                continue  # noise cannot be anisotropic in one dimension
            columns = dict(zip(Sampler._fields[:-1], sampler[:-1], strict=True))
            variances, axes = np.linalg.eigh(covariance)
            theta = torch.zeros(self.chains, 1, len(names), dtype=torch.float64)
            chain = sampler.chain(theta, torch.tensor(np.linalg.inv(covariance)), eta)
            intervals: dict[str, list[Interval]] = {}
            linear = not isinstance(chain.state, SgnhtState)
            if not (noisy and linear):
                squares = self.simulate(chain, torch.tensor(axes), rng) / variances
                intervals["simulated"] = [t_interval(column) for column in squares.T]
            if linear:
                exact = np.diag(axes.T @ stationary(chain)[: len(names), : len(names)] @ axes) / variances
                intervals["closed form"] = [Interval.exact(value) for value in exact]
            for j, problem in enumerate(names):
                base = {"sampler": name, **columns, "problem": problem, "step": float(eta)}
                rows += [
                    {**base, "kind": kind + of, **values[j].columns()} for kind, values in intervals.items()
                ]
        return rows

    def simulate(self, chain: LinearChain, axes: Tensor, rng: torch.Generator) -> np.ndarray:
        """Return the mean square of every chain along every axis, ``(chains, d)``; axes ``(d, d)`` are columns."""
        relaxation = -1 / math.log(float(np.abs(np.linalg.eigvals(chain.linear[0])).max()))
        settle, keep = (math.ceil(times * relaxation) for times in (self.settle, self.keep))
        state, total = chain.state, torch.zeros_like(chain.state.theta)
        for t in range(settle + keep):
            state = chain.step(state, rng)
            if t >= settle:
                total += (state.theta @ axes).square()
        return (total[:, 0] / keep).numpy()


def stationary(chain: LinearChain) -> np.ndarray:
    """Return the stationary covariance S of a linear chain, with ``S = A S A^T + Q``."""
    return solve_discrete_lyapunov(*chain.linear)
