"""Sampling schemes: Poisson samples, uniform subsets, random allocation, parts of shuffled epochs, and all rows."""

import math
from dataclasses import dataclass
from typing import Literal

from dplangevin.checks import positive, require, settings

Scheme = Literal["poisson", "subset", "random_allocation", "shuffled", "full"]
BY_EPOCH = {"random_allocation", "shuffled"}  # schemes whose epochs have a whole number of steps
RANDOM_SIZE = {"poisson", "random_allocation"}  # schemes whose minibatches differ in size


@dataclass(frozen=True)
class Sampling:
    """A sampling scheme with its batch size and its number of epochs.

    * "poisson": each row is in the minibatch with probability q = batch/n, independently of the others.
    * "subset": each step draws a new uniform subset of `batch` rows, without replacement.
    * "random_allocation": in each epoch of ``floor(n/batch)`` steps every row is in one uniform step, independently of
      the others. A minibatch has a random size with the mean ``n/floor(n/batch)``, but sums are divided by `batch`.
    * "shuffled": each step takes the next `batch` rows of an order that each epoch draws. The rest of it is left out.
    * "full": each step takes all rows, so the batch size is n.

    A run has ``T = floor(n epochs/tau)`` steps, with random allocation and shuffled epochs ``floor(epochs
    floor(n/tau))``.

    Differs: the code of ryffel2022 uses the rest of an epoch as a smaller minibatch.

    Attributes
    ----------
    scheme : "poisson", "subset", "random_allocation", "shuffled" or "full".
    batch : int in 1..n, tau; the expected size of a Poisson sample. None: round(sqrt(n)).
    epochs : float > 0, passes over the rows. None: sqrt(n), as in the experiments of wang2015.

    Raises
    ------
    ValueError
        If a value is outside its domain; the message names it.
    """

    scheme: Scheme
    batch: int | None = None
    epochs: float | None = None

    def __post_init__(self) -> None:
        settings(self)
        if self.batch is not None:
            require(self.scheme != "full", f"scheme full takes all rows: leave out batch = {self.batch}")
            whole = self.batch >= 1 and self.batch == int(self.batch)
            require(whole, f"batch must be a whole number of at least 1, not {self.batch}")
        if self.epochs is not None:
            positive(epochs=self.epochs)

    def size(self, n: int) -> int:
        """Return the batch size tau for n rows; raise ValueError if it is larger than n."""
        if self.scheme == "full":
            return n
        size = round(math.sqrt(n)) if self.batch is None else int(self.batch)
        require(size <= n, f"batch = {size} is larger than the data set ({n} rows): lower it")
        return size

    def rate(self, n: int) -> float:
        """Return the sampling rate q = tau/n."""
        return self.size(n) / n

    def passes(self, n: int) -> float:
        """Return the number of epochs for n rows."""
        return math.sqrt(n) if self.epochs is None else self.epochs

    def steps(self, n: int) -> int:
        """Return the number of steps T for n rows; raise ValueError if it is 0."""
        each = self.per_epoch(n) if self.scheme in BY_EPOCH else n / self.size(n)
        steps = math.floor(each * self.passes(n))
        fault = f"epochs = {self.passes(n):g} make no step with batch = {self.size(n)}: raise epochs"
        require(steps >= 1, fault)
        return steps

    def ends(self, n: int) -> tuple[int, ...]:
        """Return the last step (1-based) of every epoch; that of the run also ends the last epoch, complete or not."""
        steps, each = self.steps(n), self.per_epoch(n) if self.scheme in BY_EPOCH else n / self.size(n)
        return tuple(min(steps, math.floor(each * (k + 1))) for k in range(math.ceil(self.passes(n))))

    def per_epoch(self, n: int) -> int:
        """Return floor(n/tau), the number of whole minibatches in an epoch."""
        return n // self.size(n)


# Defaults of the methods: a batch of sqrt(n) rows fits data of any size
SUBSETS = Sampling("subset")  # sqrt(n) epochs, as in the experiments of wang2015
POISSON = Sampling("poisson", epochs=10)
