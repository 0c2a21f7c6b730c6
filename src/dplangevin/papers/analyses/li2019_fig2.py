"""Figure 2 of Li, Chen, Liu, Carin (2019): the step-size bounds against N and against L."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dplangevin.papers.analyses.stepsize import Curve, Row, Setting, bounds, rescaled
from dplangevin.privacy.li2019_theorems import POWERS


@dataclass(frozen=True)
class Sizes:
    """The rows of Figure 2: the step-size bounds at delta = 1/N and T = N, one task for each N."""

    curves: Mapping[str, Curve]
    epsilons: Sequence[float]
    sizes: Sequence[int]  # N of the panel "records", at L = 1
    size: int  # N of the panel "lipschitz", one of `sizes`
    lipschitz: Sequence[float]  # L of that panel; the bound is computed once, at L = 1, and rescaled
    batch: int  # tau, which the paper does not state

    def __post_init__(self) -> None:
        if self.size not in self.sizes:
            raise ValueError(f"size = {self.size} must be one of sizes = {list(self.sizes)}")

    def units(self) -> list[str]:
        return [str(n) for n in self.sizes]

    def rows(self, unit: str, seed: int) -> list[Row]:
        n = int(unit)
        setting = Setting(n, self.batch, n, 1.0, 1 / n)
        lines = [
            line
            for name, curve in self.curves.items()
            for line in bounds("records", name, curve, tuple(POWERS), [setting], self.epsilons)
        ]
        if n != self.size:
            return lines
        return lines + [
            rescaled(line, "lipschitz", lipschitz) for lipschitz in self.lipschitz for line in lines
        ]
