"""Composition of privacy losses: error and time, ours against dp-accounting's PLD, prv-accountant and riskcal."""

import contextlib
import math
import warnings
from collections.abc import Callable
from statistics import median
from typing import TypeVar

from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from measure import Options, Row, timed, verdict
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

from dplangevin.privacy import RandomAllocationDpEvent
from dplangevin.privacy.accountants import profiles
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.composition import compose
from dplangevin.privacy.accountants.tight import Tight

GAUSSIAN = [  # mu, T, delta
    (1.0, 10**3, 1e-5),
    (1.0, 10**5, 1e-12),
    (0.1, 3 * 10**7, 1e-10),
    (2.0, 10**8, 1e-9),
    (1.0, 10**8, 1e-14),
]
ALLOCATED = [  # noise multiplier, steps of an epoch, epochs, delta, seconds that a price may take
    (1.1, 50, 5, 1e-5, 1.0),
    (1.1, 468, 5, 1e-5, 1.0),
    (0.3, 50, 5, 1e-5, 1.0),
    (1.1, 10_000, 5, 1e-12, 2.0),
]
SAMPLED = [  # q, noise multiplier, T, delta
    (0.01, 1.0, 10**3, 1e-5),
    (0.002, 0.8, 2 * 10**4, 1e-8),
    (0.01, 10.0, 10**6, 1e-10),
]
STEP = 1e-4  # of dp-accounting's grid
LONGEST = 10**5  # steps that dp-accounting is asked for
LONGEST_EPOCH = 1000  # steps of an epoch that pld-accounting is asked for
ALLOWED = 1e-3  # relative error
NUDGE = 1e-9  # of delta from run to run, so that no price is remembered

T = TypeVar("T")


def rows(options: Options) -> list[Row]:
    gaussian = [_gaussian(options, *case) for case in GAUSSIAN]
    sampled = [_sampled(options, *case) for case in SAMPLED]
    return gaussian + sampled + [_allocated(options, *case) for case in ALLOCATED]


def _gaussian(options: Options, mu: float, steps: int, delta: float) -> Row:
    exact, noise = epsilon_of(mu, delta), math.sqrt(steps) / mu
    ours, took = repeated(
        options.runs, delta, lambda delta: compose([(profiles.gaussian(1 / noise), steps)], delta)
    )
    error, peer = ours.epsilon / exact - 1, "-"
    if steps <= LONGEST:
        theirs, spent = repeated(options.runs, delta, lambda delta: pld(noise, steps, delta))
        peer = f"dp_accounting PLD: {theirs / exact - 1:+.1e} in {spent:.2f} s"
    return Row(
        f"compose {steps:.0e} Gaussian steps, {mu:g}-GDP, delta {delta:g}",
        f"{error:+.1e} in {took:.2f} s",
        peer,
        f"{ours.epsilon:.5f}, exact {exact:.5f}",
        f"0 to {ALLOWED:g} above",
        verdict(0 <= error <= ALLOWED),
        str(options.threads),
        f"relative error, and median time of {options.runs} prices",
    )


def _sampled(options: Options, rate: float, multiplier: float, steps: int, delta: float) -> Row:
    event = SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)), steps)
    price, took = repeated(options.runs, delta, lambda delta: Tight().price(event, delta, "add_remove"))
    error = 3e-3 * price.epsilon
    (low, _, high), spent = repeated(
        options.runs, delta, lambda delta: prv(rate, multiplier, steps, delta, error)
    )
    theirs, long = repeated(options.runs, delta, lambda delta: riskcal(rate, multiplier, steps, delta))
    return Row(
        f"compose {steps:.0e} Poisson-sampled steps, q {rate:g}, z {multiplier:g}, delta {delta:g}",
        f"{price.epsilon:.5f} in {took:.2f} s",
        f"prv-accountant: {low:.4f} to {high:.4f} in {spent:.1f} s; riskcal {theirs:.5f} in {long:.1f} s",
        f"{spent / took:.0f} and {long / took:.0f} times faster",
        "within its bracket",
        verdict(low <= price.epsilon <= high),
        str(options.threads),
        f"median of {options.runs} prices, add_remove; prv-accountant to .3 %, riskcal on a grid of {STEP:g}",
    )


def _allocated(options: Options, noise: float, steps: int, epochs: int, delta: float, seconds: float) -> Row:
    """Random allocation against pld-accounting, where that is installed."""
    event = SelfComposedDpEvent(RandomAllocationDpEvent(steps, GaussianDpEvent(noise)), epochs)
    price, took = repeated(options.runs, delta, lambda delta: Tight().price(event, delta, "add_remove"))
    replaced, long = repeated(options.runs, delta, lambda delta: Tight().price(event, delta, "replace_one"))
    found, within = None, max(took, long) < seconds
    if steps <= LONGEST_EPOCH:
        with contextlib.suppress(ImportError):
            from PLD_accounting import gaussian_allocation_epsilon_range as bracket

            found = timed(lambda: bracket(delta=delta, sigma=noise, num_steps=steps, num_epochs=epochs))
    peer = "pld-accounting: not asked"
    if found:
        (high, low), spent = found
        peer = f"pld-accounting: {low:.4f} to {high:.4f} in {spent:.1f} s"
        within = within and low <= price.epsilon <= high
    return Row(
        f"compose {epochs} epochs of {steps} randomly allocated steps, z {noise:g}, delta {delta:g}",
        f"{price.epsilon:.5f} in {took:.2f} s",
        peer,
        f"replace_one {replaced.epsilon:.5f} in {long:.2f} s",
        f"under {seconds:g} s each, within the bracket",
        verdict(within),
        str(options.threads),
        f"median of {options.runs} prices, add_remove; pld-accounting, if installed, up to {LONGEST_EPOCH} steps",
    )


def repeated(runs: int, delta: float, price: Callable[[float], T]) -> tuple[T, float]:
    """A price at delta, and median seconds of `runs` prices, each at a delta of its own."""
    found = [timed(lambda each=each: price(delta * (1 + NUDGE * each))) for each in reversed(range(runs))]  # type: ignore[misc]
    return found[-1][0], median(took for _, took in found)


def pld(multiplier: float, steps: int, delta: float) -> float:
    accountant = PLDAccountant(value_discretization_interval=STEP)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(multiplier), steps))
    return float(accountant.get_epsilon(delta))


def riskcal(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """Its accountant is dp-accounting's PLD with connected dots, from which it reads error rates of attacks, too."""
    from riskcal.accountants import CTDAccountant

    accountant = CTDAccountant()
    for _ in range(steps):
        accountant.step(noise_multiplier=multiplier, sample_rate=rate)
    return float(accountant.get_epsilon(delta=delta, grid_step=STEP))


def prv(rate: float, multiplier: float, steps: int, delta: float, error: float) -> tuple[float, float, float]:
    step = PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=multiplier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountant = PRVAccountant(
            [step], max_self_compositions=[steps], eps_error=error, delta_error=delta / 1000
        )
        low, middle, high = accountant.compute_epsilon(delta=delta, num_self_compositions=[steps])
    return low, middle, high
