"""Which rows a step sees: Poisson samples, uniform subsets, parts of shuffled epochs, or all rows."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

Scheme = Literal["poisson", "subset", "shuffled", "full"]


@dataclass(frozen=True)
class Sampling:
    """How a step draws its minibatch, and for how many steps.

    scheme: "poisson", each row is in the minibatch with probability batch/n (q), independently; "subset", a uniform
    subset of `batch` rows, drawn without replacement and anew each step; "shuffled", the next `batch` rows of a random
    order, which is drawn anew each epoch and whose rest, fewer than `batch`, is left out; "full", all rows (batch is
    then n).
    batch: tau, in 1..n, of Poisson samples the expected size; None: round(sqrt(n)).  epochs: passes over the rows, > 0;
    None: sqrt(n), as wang2015 runs its experiments.  There are ``T = floor(n epochs/tau)`` steps, so never more passes
    than are stated; of shuffled epochs ``floor(epochs floor(n/tau))``.
    Differs: the code of ryffel2022 takes what is left over of an epoch as a smaller minibatch.
    Raises ValueError, naming it, for a number out of its domain.
    """

    scheme: Scheme
    batch: int | None = None
    epochs: float | None = None

    def __post_init__(self) -> None:
        if self.scheme not in get_args(Scheme):
            raise ValueError(f"scheme must be one of {', '.join(get_args(Scheme))}, not {self.scheme!r}")
        if self.scheme == "full" and self.batch is not None:
            raise ValueError(f"scheme full takes all rows: leave out batch = {self.batch}")
        if self.batch is not None and not (self.batch >= 1 and self.batch == int(self.batch)):
            raise ValueError(f"batch must be a whole number of at least 1, not {self.batch}")
        if self.epochs is not None and not (self.epochs > 0 and math.isfinite(self.epochs)):
            raise ValueError(f"epochs must be positive and finite, not {self.epochs}")

    def size(self, n: int) -> int:
        """tau, of n rows."""
        if self.scheme == "full":
            return n
        size = round(math.sqrt(n)) if self.batch is None else int(self.batch)
        if size > n:
            raise ValueError(f"batch = {size} is larger than the data set ({n} rows): lower it")
        return size

    def rate(self, n: int) -> float:
        """q = tau/n."""
        return self.size(n) / n

    def passes(self, n: int) -> float:
        """Epochs, of n rows."""
        return math.sqrt(n) if self.epochs is None else self.epochs

    def steps(self, n: int) -> int:
        """T."""
        each = self.per_epoch(n) if self.scheme == "shuffled" else n / self.size(n)
        steps = math.floor(each * self.passes(n))
        if steps < 1:
            raise ValueError(
                f"epochs = {self.passes(n):g} make no step with batch = {self.size(n)}: raise epochs"
            )
        return steps

    def ends(self, n: int) -> tuple[int, ...]:
        """The steps, 1-based, after which an epoch is over; the last step ends the last, whole or not."""
        steps, each = self.steps(n), self.per_epoch(n) if self.scheme == "shuffled" else n / self.size(n)
        return tuple(min(steps, math.floor(each * (k + 1))) for k in range(math.ceil(self.passes(n))))

    def per_epoch(self, n: int) -> int:
        """Whole minibatches of an epoch, floor(n/tau)."""
        return n // self.size(n)


# The defaults of methods, of sqrt(n) rows each, so that they fit data of any size
SUBSETS = Sampling("subset")  # for sqrt(n) epochs, as wang2015 runs its experiments
POISSON = Sampling("poisson", epochs=10)
