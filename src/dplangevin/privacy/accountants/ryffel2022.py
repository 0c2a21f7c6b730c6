"""The paper's own bound for the last iterate: Ryffel, Bach, Pointcheval (2022), Theorem 3.1."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.protocol import Theorem, leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency, LangevinDpEvent

Orders = Literal["real", "integer"]


@dataclass(frozen=True)
class Ryffel2022(Theorem):
    """Accountant of ryffel2022 for the last iterate of DP-Langevin; replace_one.

    Theorem 3.1: R_alpha = a alpha, with a = 4 L^2/(lambda n^2 sigma^2) (1 - exp(-lambda/2 sum_k eta_k)). Runs in
    sequence add up. Proposition 2.1: eps = min over alpha > 1 of a alpha + ln(1/delta)/(alpha - 1).

    The batch size does not enter, because the proof averages a step's sensitivity over batches to 2L/n. That average
    does not bound the Renyi divergence of the mixture over batches. So with sampled batches the result is the paper's
    claim and no guarantee.
    Differs: sum_k eta_k is summed exactly over k = 0, ..., K - 1. Corollary 3.3 replaces it by an integral, (2/lambda)
    ln(1 + lambda K/(4 beta)), which is smaller (it is above the sum over k = 1, ..., K).

    Attributes
    ----------
    orders : {"real", "integer"}
        "real": alpha = 1 + sqrt(ln(1/delta)/a), so eps = a + 2 sqrt(a ln(1/delta)). "integer": the best of 2, 3, ...
    """

    orders: Orders = "real"
    adjacencies = ("replace_one",)

    def __post_init__(self) -> None:
        if self.orders not in get_args(Orders):
            raise ValueError(f"orders = {self.orders!r} must be one of {', '.join(get_args(Orders))}")

    @property
    def name(self) -> str:
        return f"Ryffel et al. 2022 ({self.orders} orders)"

    def renyi(self, event: LangevinDpEvent, alpha: float) -> float:
        """Return R_alpha of Theorem 3.1, for alpha > 1."""
        if not alpha > 1:
            raise ValueError(f"alpha = {alpha} must be greater than 1")
        return alpha * self._slope(event)

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        slope = sum(count * self._slope(leaf) for leaf, count in leaves(event))
        if delta == 0:
            return math.inf
        log = -math.log(delta)
        best = 1 + math.sqrt(log / slope)
        if self.orders == "real":
            return slope * best + log / (best - 1)
        return min(
            slope * alpha + log / (alpha - 1) for alpha in (max(2, math.floor(best)), max(2, math.ceil(best)))
        )

    def violated(self, event: DpEvent, delta: float) -> tuple[str, ...]:
        """Return the conditions of Theorem 3.1 that `event` fails, as text with the values."""
        if trivial(event, delta) is not None:
            return ()
        return tuple(
            f"eta = {leaf.step_size:.4g} >= 1/beta = {1 / leaf.smoothness:.4g}"
            for leaf, _ in leaves(event)
            if isinstance(leaf, LangevinDpEvent) and leaf.step_size * leaf.smoothness >= 1
        )

    def _slope(self, event: DpEvent) -> float:
        if not isinstance(event, LangevinDpEvent):
            raise refuse(self.name, event, "it prices the last iterate of DP-SGLD (LangevinDpEvent)")
        if event.strong_convexity == 0:
            raise refuse(self.name, event, "Theorem 3.1 needs strong_convexity > 0")
        scale = 4 / event.strong_convexity * (event.lipschitz / (event.records * event.noise_std)) ** 2
        return scale * -math.expm1(-event.strong_convexity / 2 * float(event.step_sizes().sum()))
