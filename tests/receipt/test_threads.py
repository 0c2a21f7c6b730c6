"""What users ran who asked in public threads, in small: what its ε truly is, and what the receipt says."""

import math
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from minibatches import DELTA, Rows, epochs, gaussian, poisson, replaced

from dplangevin import Receipt

N, B, STEPS, NOISE = 600, 50, 36, 1.5
NONE = math.nan, math.nan


@cache
def sgm(rate: float = B / N, steps: int = STEPS, noise: float = NOISE) -> float:
    """Return the epsilon of Poisson samples (add/remove), by dp-accounting."""
    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps))
    return float(accountant.get_epsilon(DELTA))


def pairs(minibatches: Rows) -> list[list[np.ndarray]]:
    """Return steps that accumulate two minibatches each."""
    return [list(two) for two in zip(minibatches[::2], minibatches[1::2], strict=True)]


SHUFFLED = "shuffled", (math.nan, gaussian(2 * math.sqrt(3) / NOISE)), "not covered"  # a row is used thrice
SAMPLES = partial(poisson, N, B, STEPS)
# threads, steps, settings, sampler, prices (None: not compared) and a text of the receipt
ASKED: list[tuple[str, Any, dict[str, Any], str | None, tuple[float | None, float | None], str]] = [
    ("opacus 128, tensorflow 483: shuffled minibatches of one size", epochs(N, B, STEPS), {}, *SHUFFLED),
    ("tensorflow 153: in one order", epochs(N, B, STEPS, shuffle=False), {}, "in_order", NONE, "not covered"),
    ("jax_privacy 272, private-transformers 7: accumulated", pairs(epochs(N, B, STEPS)), {}, *SHUFFLED),
    ("jax_privacy 395: the remainder dropped", epochs(N, 70, 24, drop=True), {}, *SHUFFLED),
    ("jax_privacy 222, opacus 420, 571, 819: Poisson samples and a constant divisor", SAMPLES(), {}, "poisson",
     (sgm(), None), "covered for adding or removing"),
    ("opacus 420: the realised size as divisor", SAMPLES(), {"divisor": None}, "poisson", (math.nan, None),
     "realised size"),
    ("opacus 200: noise and sum are both divided", SAMPLES(), {"noise": NOISE / B * B}, "poisson", (sgm(), None), ""),
    ("tensorflow 153: noise for the mean, on the sum", SAMPLES(), {"noise": NOISE / B}, "poisson", (None, None),
     "not covered"),
    ("opacus 600: weights from the data", replaced(N, B, STEPS, 6.0), {"rate": None}, "weighted", NONE, "weights"),
    ("opacus 813: the rate that ran", poisson(N, N // 8, 8), {"rate": 1 / 8}, "poisson", (sgm(1 / 8, 8), None), ""),
    ("opacus 813: another rate", poisson(N, N // 8, 8), {}, None, (None, None), "stated rate"),
    ("tensorflow 46, 81: microbatches of a sample", SAMPLES(), {"rows_per_clip": 8}, "poisson", NONE, "groups"),
    ("tensorflow 46, 81: microbatches of all rows", [np.arange(N)] * STEPS, {"rows_per_clip": 8}, "full",
     (math.nan, gaussian(2 * STEPS**0.5 / NOISE)), "groups"),
    ("jax_privacy 103: cut samples", [rows[:B] for rows in SAMPLES()], {}, None, (math.nan, None), ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "settings", "scheme", "prices", "said"), [each[1:] for each in ASKED], ids=[a[0] for a in ASKED]
)
def test_what_ran_is_priced(
    steps: Any, settings: dict[str, Any], scheme: str | None, prices: tuple[float | None, ...], said: str
) -> None:
    settings = {"rate": B / N, "divisor": B, "noise": NOISE, "rows_per_clip": 1, **settings}
    of = Receipt(N, DELTA, settings["rate"], claim=sgm(), claimed_by="the accountant")
    for rows in steps:
        divisor = settings["divisor"] or max(len(rows), 1)
        of.step(
            rows,
            clip=1.0,
            noise_std=settings["noise"],
            divisor=divisor,
            rows_per_clip=settings["rows_per_clip"],
        )
    schemes = [each.scheme for each in of.recognise()[0].samplers]
    assert "poisson" not in schemes if scheme is None else schemes[0] == scheme
    for found, known in zip(of.prices().values(), prices, strict=True):
        assert known is None or found.epsilon == pytest.approx(known, rel=1e-2, nan_ok=True)
    assert said in str(of)
