"""Calibration: the noise that a budget needs, ours against dp_accounting's own search."""

from collections.abc import Callable
from functools import partial
from statistics import median

from dp_accounting import DpEvent, mechanism_calibration
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from measure import Options, Row, timed, verdict

from dplangevin.privacy import Budget, calibrate
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.rdp import Rdp
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import StepSchedule, steps_event

EPSILON, DELTA = 0.5, 1e-5
RATE, STEPS = 128 / 50_000, 10_000  # li2019's sizes
RENYI, COMPOSED = 1.0, 15.0  # seconds allowed
LOW, HIGH = 0.1, 100.0


def rows(options: Options) -> list[Row]:
    peers: dict[str, Callable[[], object]] = {"RDP": RdpAccountant, "PLD": PLDAccountant}
    cases: list[tuple[Accountant, StepSchedule, str, float]] = [
        (Li2019(), "fixed", "RDP", RENYI),
        (Li2019(256), "decreasing", "", RENYI),
        (Rdp(), "fixed", "RDP", RENYI),
        (Rdp(), "decreasing", "", RENYI),
        (Tight(), "fixed", "PLD", COMPOSED),
        (Tight(), "decreasing", "", COMPOSED),
    ]
    found = []
    for accountant, schedule, peer, allowed in cases:
        noise, own = ours(accountant, schedule, options.runs)
        other = "-"
        if peer:
            value, took = theirs(peers[peer], options.runs)
            other = f"dp_accounting {peer}: {took:.2f} s, sigma {value:.4f}"
        found.append(
            Row(
                f"calibrate, {accountant.name}, {schedule} steps",
                f"{own:.2f} s, sigma {noise:.4f}",
                other,
                f"{own:.2f} s",
                f"< {allowed:g} s",
                verdict(own < allowed),
                str(options.threads),
                f"q = {RATE:g}, {STEPS} Poisson-sampled steps, ({EPSILON:g}, {DELTA:g}), add_remove, to 1e-4; "
                f"median of {options.runs} runs, each at another epsilon so that nothing is remembered",
            )
        )
    return found


def event(schedule: StepSchedule) -> Callable[[float], DpEvent]:
    return lambda sigma: steps_event(sigma, rate=RATE, steps=STEPS, schedule=schedule)


def ours(accountant: Accountant, schedule: StepSchedule, runs: int) -> tuple[float, float]:
    def search(budget: Budget) -> float:
        return calibrate(accountant, event(schedule), budget, low=LOW, high=HIGH, adjacency="add_remove")

    return searched(search, runs)


def theirs(accountant: Callable[[], object], runs: int) -> tuple[float, float]:
    """By dp_accounting's own search."""
    bracket = mechanism_calibration.ExplicitBracketInterval(LOW, HIGH)
    search = mechanism_calibration.calibrate_dp_mechanism
    return searched(
        lambda budget: search(accountant, event("fixed"), budget.epsilon, budget.delta, bracket, tol=1e-4),
        runs,
    )


def searched(search: Callable[[Budget], float], runs: int) -> tuple[float, float]:
    """Noise multiplier for EPSILON, and median seconds.

    The budget differs a little from run to run, since prices are remembered by content, and is EPSILON at last.
    """
    budgets = [Budget(EPSILON * (1 + 1e-3 * run), DELTA) for run in reversed(range(runs))]
    found = [timed(partial(search, budget)) for budget in budgets]
    return found[-1][0], median(took for _, took in found)
