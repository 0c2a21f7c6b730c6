"""Bounds, rates and limits that wang2015 states, against exact values in small cases that meet the hypotheses.

Columns: kind, the statement; case, the model; x, what varies; value, exact; bound, the paper's. A bound holds if the
ratio value/bound is at most 1. Neighbours are replace-one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product

import numpy as np
import torch
from scipy import integrate, stats
from scipy.special import expit, gammaln, log_expit, logit, logsumexp

from dplangevin import random
from dplangevin.papers.analyses.cases import Row, table
from dplangevin.papers.analyses.coins import (
    central_mass,
    far_mass,
    rejections,
    scoring_transition,
    sgld_transition,
)
from dplangevin.papers.analyses.finite import (
    composed,
    fixed_point,
    metropolis,
    moments,
    worst_ratio,
    worst_within,
)
from dplangevin.papers.analyses.mechanisms import posterior_weight
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.samplers.kernels.stochastic import sgnht

Case = tuple[str, str, float, float, float]
COLUMNS = ("kind", "case", "x", "value", "bound")
MASSES = (1 / 3, 0.001, 1e-6)  # prior masses of one parameter, in "lipschitz" and "losses"
THETA0, RADIUS = 0.5, 2.0  # of "wald" and "hybrid", whose prior is uniform on [-RADIUS, RADIUS]
OUTSIDE = 0.1  # posterior mass far from the truth that counts as a failure of the posterior
LEVEL = 0.05  # of Wald's test
SHIFT = 2.0  # standard errors between the two hypotheses of the power
DIVERGED = 1e3  # distance at which a chain counts as diverged, in posterior standard deviations


@dataclass(frozen=True)
class Algorithm2:
    """The numbers of Algorithm 2."""

    records: int  # N
    batch: int  # tau
    passes: int  # T
    lipschitz: float  # L
    delta: float

    @property
    def steps(self) -> float:
        """The number of steps, N T/tau."""
        return self.records * self.passes / self.batch

    @property
    def logs(self) -> float:
        """The product of logarithms, ln(2.5 N T/(tau delta)) ln(2/delta)."""
        return math.log(2.5 * self.steps / self.delta) * math.log(2 / self.delta)

    def noise(self, epsilon: float) -> float:
        """Return the variance of the privacy noise over eta^2, 128 N T L^2/(tau epsilon^2) times `logs`."""
        return 128 * self.steps * self.lipschitz**2 / epsilon**2 * self.logs

    def relaxation_times(self, epsilon: float) -> float:
        """Return how many relaxation times SGLD covers at the step whose privacy noise is eta, at curvature L N/4."""
        return self.steps * self.lipschitz * self.records / 4 / self.noise(epsilon)


@dataclass(frozen=True)
class Bounds:
    """The exact cases of all statements, one task for each statement (see the methods)."""

    sizes: Sequence[int]  # n of "consistency"
    steps: Sequence[float]  # eta of "weak" and "noise"
    points: int  # of the lattice in "weak" and "scoring"
    algorithm: Algorithm2  # of all tasks on Algorithm 2
    epsilons: Sequence[float]
    covariance_records: Sequence[int]  # n > 4 of the enumerated data sets of "covariance"
    far_records: Sequence[int]  # n of the bound for all data sets of "covariance"
    dimensions: Sequence[int]  # d of "rates"
    wald_sizes: Sequence[int]  # n of "wald" and "hybrid"
    chains: int
    chain_length: int
    scoring: Sequence[tuple[int, int, int]]  # (N, heads in 1..N - 1, tau in 1..N - 1) of "scoring"

    def units(self) -> list[str]:
        return [
            "lipschitz", "consistency", "weak", "phase", "noise", "step", "lemmas", "gaussian", "covariance", "rates",
            "wald", "approximate", "mechanism", "composition", "losses", "scoring", "batches", "hybrid", "thermostat",
        ]  # fmt: skip

    def rows(self, unit: str, seed: int) -> list[Row]:
        cases = self._thermostat(seed) if unit == "thermostat" else getattr(self, f"_{unit}")()
        return table({}, (dict(zip(COLUMNS, case, strict=True)) for case in cases))

    def _lipschitz(self) -> Iterator[Case]:
        """Yield Theorem 1, 4 L R, for ||x|| <= R and log p(x|theta) that is L-Lipschitz in x, at L = R = 1; x: n.

        value: the largest |log ratio| over neighbours from a lattice of x and three theta, the smallest pure epsilon.
        """
        lattice, fine, signs = np.linspace(-1, 1, 5), np.linspace(-1, 1, 4001), np.array([-1.0, 0.0, 1.0])
        families = {
            "exponential family": (signs, lambda theta, x: theta[:, None] * x),
            "Laplace": (4 * signs, lambda theta, x: -np.abs(x - theta[:, None])),
        }
        cases = product(families.items(), MASSES, (1, 2, 3, 4))
        for (name, (theta, log_likelihood)), mass, n in cases:
            normaliser = np.log(np.trapezoid(np.exp(log_likelihood(theta, fine)), fine, axis=1))
            log_p = log_likelihood(theta, lattice) - normaliser[:, None]  # (parameters, points)
            worst = worst_ratio(log_p, mass, n)
            case = f"{name}, prior mass {mass:g} on one parameter"
            yield "theorem 1, 4LR", case, n, worst, 4.0

    def _consistency(self) -> Iterator[Case]:
        """Yield the cases of Proposition 1 on coins whose probability of heads is .4; x: n.

        The probability that one sample, or that more than `OUTSIDE` of the posterior, is further than .05 away.
        """
        truth, distance = 0.4, 0.05
        inside = np.linspace(0.05, 0.95, 19)
        far = np.abs(inside - truth) > distance + 1e-9
        models = {  # name -> probability of heads for each parameter, whether it is far from the truth
            "lattice with the truth": (inside, far),
            "prior without the truth": (inside[far], far[far]),
            "not identified": (np.tile(inside, 2), np.append(far, np.ones(19, bool))),
        }
        for n in self.sizes:
            heads = np.arange(n + 1)
            weight = stats.binom.pmf(heads, n, truth)
            masses = {name: far_mass(heads, n, chance, far) for name, (chance, far) in models.items()}
            ends = np.clip([truth - distance, truth + distance], 0, 1)
            low, high = (stats.beta.cdf(end, heads + 1, n - heads + 1) for end in ends)
            masses = {"uniform prior": 1 - (high - low), **masses}
            for name, mass in masses.items():
                yield "proposition 1, sample", name, n, float(weight @ mass), math.nan
                yield "proposition 1, posterior", name, n, float(weight @ (mass > OUTSIDE)), math.nan

    def _weak(self) -> Iterator[Case]:
        """Yield |E_posterior h - E_SGLD h| over E_posterior h, O(eta) by Theorem 3, for constant steps eta (x, bound).

        h = theta^2 and U = 4 (softplus(theta) + softplus(-theta)): logistic loss of x = 1 with both labels, flat prior.
        Minibatches of two are drawn without replacement; the stationary law is exact on a lattice.
        """
        pairs, theta = 4, np.linspace(-8.0, 8.0, self.points)
        log = pairs * (log_expit(theta) + log_expit(-theta))
        target = np.exp(log - logsumexp(log))
        true = float(target @ theta**2)
        for factor, name in ((1.0, "noise N(0, η), as printed"), (2.0, "noise N(0, 2η)")):
            for eta in self.steps:
                law = fixed_point(sgld_transition(theta, pairs, 2, eta, factor * eta))
                bias = abs(float(law @ theta**2) - true) / true
                yield "theorem 3, bias", name, eta, bias, eta

    def _phase(self) -> Iterator[Case]:
        """Yield the alpha-phase transition (Section 4.1), eta_t = alpha eps^2/(128 L^2 ln(..) ln(2/delta) t); x: alpha.

        value: the last t at which the privacy noise is above eta_t, or sum of eta_t L N/4 over t > alpha N T/tau, the
        relaxation times that SGLD covers at the largest curvature of the logistic loss. bound: alpha N T/tau.
        """
        setting = self.algorithm
        for alpha, epsilon in product((0.1, 0.25, 0.5, 0.75, 0.9), self.epsilons):
            t = np.arange(1, math.floor(setting.steps) + 1)
            eta = alpha * epsilon**2 / (128 * setting.lipschitz**2 * setting.logs * t)
            above = np.flatnonzero(setting.noise(epsilon) * eta**2 > eta * (1 + 1e-12))
            last = float(t[above[-1]]) if len(above) else 0.0
            case = f"ε = {epsilon:g}"
            yield "phase transition", case, alpha, last, alpha * setting.steps
            covered = float(eta[t > alpha * setting.steps].sum()) * setting.lipschitz * setting.records / 4
            yield "phase transition, relaxation times", case, alpha, covered, math.nan

    def _noise(self) -> Iterator[Case]:
        """Yield the variances of both noises of Algorithm 2 against eta (x), at the first epsilon (supplement E)."""
        needed = self.algorithm.noise(self.epsilons[0])
        for eta in self.steps:
            yield "noise of a step", "privacy", eta, needed * eta**2, math.nan
            yield "noise of a step", "posterior sampling", eta, eta, math.nan

    def _step(self) -> Iterator[Case]:
        """Yield the privacy loss of one step of Algorithm 2 at delta_0 = tau delta/(2 N T); x: epsilon.

        bound: that of the proof of Theorem 4, eps sqrt(N)/sqrt(32 tau T ln(2/delta)). The sensitivity is 2 L.
        """
        setting = self.algorithm
        small = setting.delta / (2 * setting.steps)
        for epsilon in self.epsilons:
            std = math.sqrt(setting.noise(epsilon)) * setting.batch / setting.records
            root = math.sqrt(32 * setting.batch * setting.passes * math.log(2 / setting.delta))
            claimed = epsilon * math.sqrt(setting.records) / root
            mu = 2 * setting.lipschitz / std
            yield "theorem 4, one step", "exact", epsilon, epsilon_of(mu, small), claimed
            formula = mu * math.sqrt(2 * math.log(1.25 / small))
            yield "theorem 4, one step", "Theorem 2 of the paper", epsilon, formula, claimed

    def _lemmas(self) -> Iterator[Case]:
        """Yield three statements on privacy.

        - Lemma 4: ln(1 + gamma (e^eps - 1)) for a uniform subset of a share gamma, against 2 gamma eps; x: eps < 1;
        - Remark 1: advanced composition of k steps at eps = c/sqrt(2 k ln(1/delta')), against 2 c; x: c;
        - Supplement E: the smallest tau for one pass in Theorem 4, eps^2 N/(32 ln(2/delta)), against N (x).
        """
        for gamma, epsilon in product((0.001, 0.01, 0.1, 0.5, 1.0), (0.01, 0.1, 0.5, 0.99)):
            exact = math.log1p(gamma * math.expm1(epsilon))
            yield "lemma 4", f"γ = {gamma:g}", epsilon, exact, 2 * gamma * epsilon
        for k, delta, share in product((1, 10, 1000, 100000), (1e-2, 1e-6), (0.01, 0.1, 0.5, 0.99)):
            log = -math.log(delta)
            c = share * math.sqrt(log)
            epsilon = c / math.sqrt(2 * k * log)
            total = c + k * epsilon * math.expm1(epsilon)
            yield "remark 1", f"k = {k}, δ' = {delta:g}", c, total, 2 * c
        for records, epsilon in product((1000, 10000, 100000), self.epsilons):
            smallest = epsilon**2 * records / (32 * math.log(2 / self.algorithm.delta))
            yield "one pass", f"ε = {epsilon:g}", records, smallest, records

    def _gaussian(self) -> Iterator[Case]:
        """Yield the exact epsilon of the mechanism of Lemma 5 for a sum of gradients in a ball; x, bound: eps.

        The noise is (1 + sqrt(c ln(1/delta)))/eps radii, with c = 1 as printed, and c = 2 as in the paper's Theorem 2.
        A replaced record moves the sum by twice the radius, an added or removed one by once the radius.
        """
        changes = {"replaced": 2.0, "added or removed": 1.0}
        budgets = (*((e, 1e-5) for e in (0.1, 1.0, 5.0, 10.0)), (1.0, 1e-10), (1.0, 1e-15))
        for (change, moved), factor in product(changes.items(), (1, 2)):
            root = "as printed" if factor == 1 else f"{factor} log(1/δ) under the root"
            for epsilon, delta in budgets:
                std = (1 + math.sqrt(factor * math.log(1 / delta))) / epsilon
                exact = epsilon_of(moved / std, delta)
                yield f"lemma 5, {change}, {root}", f"δ = {delta:g}", epsilon, exact, epsilon

    def _covariance(self) -> Iterator[Case]:
        """Yield the cases of Lemma 6: ||Cov(X) - Cov(X')||_F <= 7 L^2/(n - 1) for n > 4, at L = 1; x: n.

        any data set: the difference is (a a^T - b b^T)/n with a = x - m, b = x' - m and the mean m of the others. Its
        norm is at most s (sqrt(4 - s^2) + 2)/n with s = |x - x'|, so at most 3 sqrt(3)/n, at s = sqrt 3.
        """
        turns = np.linspace(0, 2 * math.pi, 8, endpoint=False)
        balls = {
            1: np.linspace(-1, 1, 5)[:, None],
            2: np.concatenate([np.zeros((1, 2)), np.stack([np.cos(turns), np.sin(turns)], 1)]),
            3: np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)]),
        }
        for n, (d, ball) in product(self.covariance_records, balls.items()):
            worst = 0.0
            for others in combinations_with_replacement(range(len(ball)), n - 1):
                sets = np.stack([np.vstack([ball[list(others)], point]) for point in ball])  # (points, n, d)
                centred = sets - sets.mean(1, keepdims=True)
                cov = np.einsum("pni,pnj->pij", centred, centred) / (n - 1)
                gap = np.linalg.norm(cov[:, None] - cov[None], axis=(2, 3))
                worst = max(worst, float(gap.max()))
            yield "lemma 6", f"enumerated, d = {d}", n, worst, 7 / (n - 1)
        for n in self.far_records:
            yield "lemma 6", "any data set", n, 3 * math.sqrt(3) / n, 7 / (n - 1)

    def _rates(self) -> Iterator[Case]:
        """Yield E||z|| of z ~ N(0, I^-1) over sqrt((1 + 4B/eps)/n) (supplement B, remark 1).

        l2 is compared with sqrt(d) (x: d) and, at d = 10 and I^-1 = s times the identity, with ||I^-1||_F (x: s); linf
        with its value at d = 1 (x: d), as ||I^-1||_2 is 1.
        """
        for d in self.dimensions:
            yield "rate, l2", "I = identity", d, length(d), math.sqrt(d)
        for s in (0.01, 0.1, 1.0, 10.0, 100.0):
            yield "rate, l2, scale", "d = 10", s, math.sqrt(s) * length(10), s * math.sqrt(10)
        for d in self.dimensions:
            yield "rate, linf", "I = identity", d, largest(d), largest(1)

    def _wald(self) -> Iterator[Case]:
        """Yield level and power of a test with one posterior sample on coins with logit theta (supplement B); x: n.

        Wald's test rejects if n I(theta) (theta - theta_0)^2/(1 + 1/rho) exceeds the chi^2 quantile, the likelihood
        ratio if 2 n KL(p_theta || p_theta_0)/(1 + 1/rho) does; rho = min(1, eps/4B). The power, at theta_0 + 2
        asymptotic standard errors, is compared with that of the normal limit.
        """
        for epsilon, n in product(self.epsilons, self.wald_sizes):
            rho = posterior_weight(epsilon, RADIUS)
            information = expit(THETA0) * expit(-THETA0)
            error = math.sqrt((1 + 1 / rho) / (n * information))
            z = stats.norm.ppf(1 - LEVEL / 2)
            power = stats.norm.sf(z - SHIFT) + stats.norm.cdf(-z - SHIFT)
            for kind, theta, bound in (
                ("type I", THETA0, LEVEL),
                ("power", THETA0 + SHIFT * error, float(power)),
            ):
                wald, ratio = rejections(theta, THETA0, RADIUS, n, rho, LEVEL)
                yield f"wald, {kind}", f"ε = {epsilon:g}", n, wald, bound
                yield f"likelihood ratio, {kind}", f"ε = {epsilon:g}", n, ratio, bound

    def _approximate(self) -> Iterator[Case]:
        """Yield Proposition 3: a sample within L1 distance delta of exact is (eps, (1 + e^eps) delta)-DP; x: eps.

        The exact posteriors are those of five probabilities of heads given 5 coins, to the power rho. value: exact
        delta of the worst laws within that distance, and of a Metropolis chain that proposes neighbours from the first.
        """
        chances, coins = np.array([0.1, 0.3, 0.5, 0.7, 0.9]), 5
        for rho in (0.05, 0.2, 1.0):
            heads = np.arange(coins + 1)[:, None]
            log = rho * (heads * np.log(chances) + (coins - heads) * np.log1p(-chances))
            exact = np.exp(log - logsumexp(log, axis=1, keepdims=True))  # (data sets, parameters)
            pairs = [(i, i + 1) for i in range(coins)] + [(i + 1, i) for i in range(coins)]
            epsilon = max(float(np.log(exact[i] / exact[j]).max()) for i, j in pairs)
            for budget in (0.001, 0.01, 0.1):
                delta = max(worst_within(exact[i], exact[j], epsilon, budget) for i, j in pairs)
                case = f"worst at distance {budget:g}"
                yield "proposition 3", case, epsilon, delta, (1 + math.exp(epsilon)) * budget
            for steps in (1, 3, 10, 30, 100):
                laws = np.stack([metropolis(law, steps) for law in exact])
                budget = float(np.abs(laws - exact).sum(1).max())
                over = [np.maximum(laws[i] - math.exp(epsilon) * laws[j], 0).sum() for i, j in pairs]
                case = f"Metropolis, {steps} steps"
                bound = (1 + math.exp(epsilon)) * budget
                yield "proposition 3", case, epsilon, float(max(over)), bound

    def _mechanism(self) -> Iterator[Case]:
        """Yield the exact epsilon of Theorem 2, noise sqrt(2 ln(1.25/delta))/eps for eps < 1, against eps (x)."""
        deltas = (1e-15, 1e-10, 1e-5, 1e-2, 0.1, 0.5, 0.9, 0.99)
        for delta, epsilon in product(deltas, (0.001, 0.01, 0.1, 0.5, 0.9, 0.999)):
            mu = epsilon / math.sqrt(2 * math.log(1.25 / delta))
            yield "theorem 2", f"δ = {delta:g}", epsilon, epsilon_of(mu, delta), epsilon

    def _composition(self) -> Iterator[Case]:
        """Yield Lemma 3: k (eps, delta)-private mechanisms are (eps', k delta + delta')-private; x: eps.

        value: exact delta at eps' of the worst k adaptive mechanisms. Source: Kairouz, Oh, Viswanath (2015), Th. 3.3.
        """
        ks, epsilons = (1, 2, 10, 100, 10_000), (1e-3, 0.01, 0.1, 0.5, 1.0, 3.0)
        slacks = (0.5, 1e-2, 1e-6, 1e-12)
        for k, epsilon, slack, delta in product(ks, epsilons, slacks, (0.0, 1e-9, 1e-3)):
            if k * delta + slack >= 1:
                continue
            total = math.sqrt(2 * k * math.log(1 / slack)) * epsilon + k * epsilon * math.expm1(epsilon)
            case = f"k = {k}, δ' = {slack:g}, δ = {delta:g}"
            yield "lemma 3", case, epsilon, composed(k, epsilon, delta, total), k * delta + slack

    def _losses(self) -> Iterator[Case]:
        """Yield Theorem 1, 4B, for the losses of Section 3.4 that objective perturbation excludes; x: n.

        value: the largest |log ratio| over neighbours of n records (u, y) from a lattice, for three slopes theta.
        """
        slope = np.array([-2.0, 0.0, 2.0])[:, None]
        u, y = (grid.ravel() for grid in np.meshgrid((-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0)))
        residual = np.abs(y - slope * u)
        tables = {
            "ℓ1": residual,
            "Huber": np.where(residual <= 0.5, residual**2, residual - 0.25),
            "hinge": np.maximum(1 - (y * slope * u)[:, y != 0], 0),
        }
        for (name, loss), mass, n in product(tables.items(), MASSES, (1, 2, 3)):
            case = f"{name}, prior mass {mass:g} on one parameter"
            yield "theorem 1, 4B", case, n, worst_ratio(-loss, mass, n), 4 * float(loss.max())

    def _scoring(self) -> Iterator[Case]:
        """Yield the cases of Section 4.2: SGFS (Algorithm 4) as eta grows without bound, on coins; x: N.

        The Fisher information I is that of all records at the mode, and the stationary law is exact on a lattice.

        - mode, moments: largest difference of the distribution functions of the law and of N(mode, 1/I), or of the
          normal with the moments of the posterior, against that of the posterior;
        - relaxation: the data passes -tau/(N ln r), where r is the autocorrelation of one step;
        - private: variance over a normal posterior's; sigma^2 of Algorithm 4, F = 1, I = 1/4 per record; x: epsilon.
        """
        for records, heads, batch in self.scoring:
            mode = float(logit(heads / records))
            information = heads * (1 - heads / records)
            theta = mode + np.linspace(-12, 12, self.points) / math.sqrt(information)
            move = scoring_transition(theta, records, heads, batch)
            law = fixed_point(move)
            log = heads * log_expit(theta) + (records - heads) * log_expit(-theta)
            posterior = np.exp(log - logsumexp(log))
            case = f"{heads} of {records} heads, τ = {batch}"
            for name, (mean, variance) in {
                "mode": (mode, 1 / information),
                "moments": moments(theta, posterior),
            }.items():
                normal = np.exp(-((theta - mean) ** 2) / (2 * variance))
                normal /= normal.sum()
                away, known = (float(np.abs(np.cumsum(one - normal)).max()) for one in (law, posterior))
                yield f"sgfs, {name}", case, records, away, known
            mean, variance = moments(theta, law)
            lagged = float((law * (theta - mean)) @ move @ (theta - mean)) / variance
            yield "sgfs, relaxation", case, records, -batch / records / math.log(lagged), math.nan
        setting = self.algorithm
        for epsilon in self.epsilons:
            noise = setting.noise(epsilon) / (4 * setting.records**2)  # sigma^2 on the mean gradient
            ratio = setting.records / setting.batch
            push = setting.records * ratio / 4 + setting.records**2 * noise
            pull = setting.records / 4
            gain = 2 / ((1 + ratio) * pull)
            variance = gain**2 * push / (1 - (1 - gain * pull) ** 2)
            yield "sgfs, private", "normal posterior", epsilon, variance * pull, 1.0

    def _batches(self) -> Iterator[Case]:
        """Yield the cases of Section 4.1 on the choice of tau (x).

        Variances over eta^2 of the noise of Algorithm 2, and of N/tau times the sum of tau gradients of variance 1.
        """
        setting = self.algorithm
        for batch in (1, 10, 100, 1000, 10000):
            private = replace(setting, batch=batch).noise(self.epsilons[0])
            sampled = setting.records**2 / batch * (1 - batch / setting.records)
            yield "variance of a step", "privacy", batch, private, math.nan
            yield "variance of a step", "minibatch", batch, sampled, math.nan

    def _hybrid(self) -> Iterator[Case]:
        """Yield the cases of Section 4.1 on Algorithm 3 without burn-in, for coins as in `wald`.

        start: the probability that a posterior sample at eps/2 lies within the central 95 % of the posterior; x: n.
        relaxation times: at the largest step whose privacy noise is at most eta, at eps/2; x: eps.
        """
        for epsilon, n in product(self.epsilons, self.wald_sizes):
            rho = posterior_weight(epsilon / 2, RADIUS)
            within = central_mass(THETA0, RADIUS, n, rho)
            yield "hybrid, start", f"ε = {epsilon:g}", n, within, 0.95
        for epsilon in self.epsilons:
            covered = self.algorithm.relaxation_times(epsilon / 2)
            yield "hybrid, relaxation times", "Adult's N", epsilon, covered, math.nan

    def _thermostat(self, seed: int) -> Iterator[Case]:
        """Yield the cases of supplement E: SGNHT (eq. 4.5) with the noise of Algorithm 2 on N(0, identity); x: epsilon.

        V is the variance of the privacy noise over eta^2, and that of a step is max(2 a eta, V eta^2). E v^2 = eta
        needs alpha (2 - alpha) eta = V eta^2, so eta V <= 1.

        - temperature: mean square over the second half of undiverged chains; diverged: the share of others;
        - reached: relaxation times in N T/tau steps at eta V = 1/2, where theta relaxes at the rate eta beta N/alpha.
        """
        kernel, friction, step = sgnht(), 0.1, 0.01  # step: eta in units of 1/(beta N), beta = 1/4
        curvature, eta = self.algorithm.records / 4, torch.tensor(step, dtype=torch.float64)
        for epsilon in (1.0, 10.0, 30.0, 45.0, 60.0, 100.0, 1000.0):
            needed = self.algorithm.noise(epsilon)
            strength = step / curvature * needed
            std = math.sqrt(max(2 * friction, strength) * step)
            rng = random.generator(seed, f"wang2015_bounds thermostat {epsilon:g}")
            drawn = torch.randn(2, self.chains, 1, 2, generator=rng, dtype=torch.float64)
            start = torch.full((self.chains, 1, 1), friction, dtype=torch.float64)
            state = kernel.init(drawn[0], drawn[1] * eta.sqrt(), start)
            total = torch.zeros(self.chains, 2, dtype=torch.float64)
            lost = torch.zeros(self.chains, dtype=torch.bool)
            for t in range(self.chain_length):
                noise = std * torch.randn(self.chains, 1, 2, generator=rng, dtype=torch.float64)
                state = kernel.step(state, state.theta, noise, eta)
                lost |= ~(state.theta.abs().amax((1, 2)) < DIVERGED)
                if 2 * t >= self.chain_length:
                    total += state.theta[:, 0].square()
            stable = ~lost.numpy()
            squares = total.numpy()[stable] / (self.chain_length - self.chain_length // 2)
            alpha = 1 - math.sqrt(1 / 2)  # alpha (2 - alpha) = 1/2
            reached = self.algorithm.steps * curvature / (2 * needed) / alpha
            mean = float(squares.mean()) if stable.any() else math.nan
            yield "thermostat, temperature", "fixed step", epsilon, mean, 1.0
            yield "thermostat, diverged", "fixed step", epsilon, float(1 - stable.mean()), math.nan
            yield "thermostat, ηV", "fixed step", epsilon, strength, 1.0
            yield "thermostat, reached", "step with ηV = 1/2", epsilon, reached, 1.0


def length(d: int) -> float:
    """Return E||z||_2 of z ~ N(0, identity) in d dimensions: sqrt(2) Gamma((d + 1)/2)/Gamma(d/2)."""
    return math.sqrt(2) * math.exp(gammaln((d + 1) / 2) - gammaln(d / 2))


def largest(d: int) -> float:
    """Return E max |z_i| of d independent N(0, 1): the integral of 1 - P(|z| <= t)^d over t > 0."""
    mean, _ = integrate.quad(
        lambda t: -math.expm1(d * math.log1p(-2 * stats.norm.sf(t))) if t else 1.0, 0, 40
    )
    return float(mean)
