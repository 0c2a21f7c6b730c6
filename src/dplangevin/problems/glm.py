"""Generalised linear models on bounded rows: logistic, softmax and Huber regression.

For a loss ``phi(m, y)`` that is convex in the margins m, the objective is::

    U(theta) = sum_i phi(theta x_i, y_i)

For one margin theta is a vector and ``theta x = <x, theta>``. For K margins theta is a matrix ``(K, features)``, stored
as a vector, class after class.

Shapes: theta ``(S, E, d)`` for S seeds and E budgets. Rows ``(S', n, features)`` with S' = 1 if all seeds share one
data set, else S.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dplangevin.checks import count, positive, real, require
from dplangevin.data import clip_rows
from dplangevin.engine import long_sums, memory
from dplangevin.problems import DefaultSteps, Facts, FusedStep, Sums
from dplangevin.problems.losses import Loss, classifier, huber, named, softmax
from dplangevin.problems.sampling import RANDOM_SIZE
from dplangevin.random import Batch

if TYPE_CHECKING:
    from dplangevin.data import Dataset
    from dplangevin.problems.chain import Chain

CELLS = 2**20  # numbers of drawn rows that are gathered at a time on a CPU
TESTED = 2**22  # margins of test rows that are computed at a time
NO_TEST = torch.zeros(1, 0)
LONGEST = 1e18  # targets are clipped to it, so that the square of a slope is finite in float32
FARTHEST = 1e15  # of a coordinate: below it, the margins of rows within 1e18 are finite in float32
SLACK = 1e-6  # relative tolerance: rounding may take a norm above its bound


class Rows(NamedTuple):
    """The rule that turns a user's rows into the rows of a problem.

    - `bound`: The public bound B > 0 on the norm of a row.
    - `bias`: Add a constant feature within the bound: ``x -> (x, B)/sqrt(2)``.
    - `cut`: Replace longer rows by ``x B/||x||``.  Otherwise longer rows are an error.
    """

    bound: float
    bias: bool = False
    cut: bool = False

    def of(self, x: Any, features: int | None = None, strict: bool = True, name: str = "X") -> Tensor:
        """Return the rows as the problem uses them, ``(1, n, features)`` float32; `features` excludes the bias.

        Without `strict`, longer rows that are not cut stay as they are.
        """
        rows = _numbers(x, name, "give (n, features) of numbers")
        require(
            rows.ndim == 2 and rows.size > 0, f"{name} has shape {rows.shape}: give (n, features), neither 0"
        )
        fault = f"{name} has {rows.shape[1]} features, but {features} are expected"
        require(features in (None, rows.shape[1]), fault)
        require(bool(np.isfinite(rows).all()), f"{name} has a value that is nan or infinite: fill it in")
        if strict and not self.cut:
            with np.errstate(over="ignore"):
                longest = float(np.linalg.norm(rows, axis=1).max())
            require(
                longest <= self.bound * (1 + SLACK),
                f"{name} has a row of norm {longest:.4g} > row_bound = {self.bound:g}: scale X by public constants, "
                "raise row_bound, or set clip_rows=True",
            )
        if strict or self.cut:
            rows = clip_rows(rows, self.bound, self.bound)
        else:
            fits = np.abs(rows).max() <= np.finfo(np.float32).max
            require(bool(fits), f"{name} has a value above 3.4e38: scale X, or set clip_rows=True")
            rows = rows.astype(np.float32)
        if self.bias:
            rows = np.pad(rows, ((0, 0), (0, 1)), constant_values=self.bound) * np.float32(math.sqrt(0.5))
        return torch.from_numpy(rows)[None]


class Space:
    """Memory that steps reuse: ``space(name, *shape)`` returns that of the last call with this name, or more."""

    def __init__(self, like: Tensor) -> None:
        self.like, self.buffers = like, dict[str, Tensor]()

    def __call__(self, name: str, *shape: int) -> Tensor:
        cells = math.prod(shape)
        if name not in self.buffers or self.buffers[name].numel() < cells:
            self.buffers[name] = self.like.new_empty(cells)
        return self.buffers[name][:cells].view(shape)


@dataclass(frozen=True)
class Glm(DefaultSteps):
    """A generalised linear model with rows ``||x_i||_2 <= row_bound``; theta has length ``d = classes * features``.

    The gradient of one row's loss is ``phi' x^T``; its norm is at most `lipschitz`. The Hessian is the Kronecker
    product of ``phi''`` and ``x x^T``; its norm is at most `smoothness` (Chaudhuri, Monteleoni and Sarwate 2011,
    section 3). ``loss.rank`` of its eigenvalues can be non-zero. Their mean is at most `mean_curvature`, which at rank
    one is `smoothness`.

    Attributes
    ----------
    x : Tensor (1 or S, n, features), private rows.
    y : Tensor (1 or S, n), labels in the form that the loss takes.
    row_bound : float, public bound on the norm of a row.
    row_quantile : float, a length that 99 % of public rows do not exceed, no bound; inf where there are none.
    x_test : Tensor (1 or S, m, features) or None, test rows. Without `y_test` they are public rows.
    y_test : Tensor (1 or S, m), classes 0, ..., K - 1 of the test rows, or numbers in the units of `target`.
    mean_smoothness : float, smoothness constant of the mean loss; None for that of one record's loss.
    private : tuple of (name, text), see `Facts`.
    notes : tuple of str, how the rows were prepared, in the words of a result.
    target : (float, float) or None, for regression the public numbers in the place of the labels -1 and 1.
    names : tuple, names of the classes, in order; empty where they have none.
    converter : Rows or None, the rule by which `from_arrays` made the rows.
    """

    x: Tensor
    y: Tensor
    loss: Loss
    _: KW_ONLY
    row_bound: float = 1.0
    row_quantile: float = math.inf
    x_test: Tensor | None = None
    y_test: Tensor = NO_TEST
    mean_smoothness: float | None = None
    private: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    target: tuple[float, float] | None = None
    names: tuple[Any, ...] = ()
    converter: Rows | None = None

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        *,
        row_bound: float,
        loss: str | Loss | None = None,
        classes: Sequence[Any] | None = None,
        label_bound: float | None = None,
        threshold: float | None = None,
        public: Any = None,
        bias: bool = False,
        clip_rows: bool = False,
    ) -> Glm:
        """Return the problem for the private rows and labels of one data set.

        Parameters
        ----------
        X : array, tensor, data frame or lists (n, features), private rows.
        y : array, tensor or lists (n,), private labels.
        row_bound : float in [1e-18, 1e18], public bound B on the norm of a row.
        loss : {"logistic", "softmax", "huber"} or Loss, optional
            "logistic" has two classes, "softmax" two or more, "huber" numbers y. None: "logistic" for two classes,
            "softmax" for more.
        classes : sequence, optional
            All possible classes: public, distinct labels of any type, in order. None: the labels in y, sorted. The
            guarantee then says that the classes were read off the data.
        label_bound : float, optional
            Public Y > 0 with ``|y| <= Y``, for "huber" only. Priors and step sizes are made for numbers of about 1, so
            scale y by a public constant.
        threshold : float, optional, size at which "huber" clips residuals; None for Y.
        public : array, tensor, data frame or lists (m, features), optional
            Rows that need no privacy, with the columns of X. Only PATE uses them, for its queries.
        bias : bool, add a constant feature within the bound: ``x -> (x, B)/sqrt(2)``.
        clip_rows : bool, cut a longer row of X to the bound, which costs no privacy; otherwise it is an error.

        Raises
        ------
        ValueError
            For arguments that do not fit; the message names the argument and the fix.

        Examples
        --------
        >>> problem = Glm.from_arrays([[0.6, 0.8], [0.0, 0.5]], ["no", "yes"], row_bound=1.0, classes=["no", "yes"])
        >>> problem.n, problem.d, problem.names
        (2, 2, ('no', 'yes'))
        >>> Glm.from_arrays([[3.0, 4.0], [0.0, 0.5]], [0, 1], row_bound=1.0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: X has a row of norm 5 > row_bound = 1: scale X by public constants, ...
        """
        bound = real(row_bound=row_bound)
        positive(row_bound=bound)
        converter = Rows(bound, bias, clip_rows)
        x, labels = converter.of(X), np.asarray(y)
        require(
            loss is None or isinstance(loss, str | Loss),
            f"loss = {loss!r} must be a name or a Loss: try 'logistic'",
        )
        for name, given in (("label_bound", label_bound), ("threshold", threshold)):
            require(given is None or loss == "huber", f"{name} = {given!r} is for loss='huber': leave it out")
        require(
            labels.shape == (x.shape[1],),
            f"y has shape {labels.shape}: give one label per row, ({x.shape[1]},)",
        )
        names: tuple[Any, ...] = ()
        notes = ["rows longer than the bound are cut"] if clip_rows else []
        if loss == "huber":
            require(label_bound is not None, "huber needs label_bound, a public Y with |y| <= Y: give it")
            most = real(label_bound=label_bound)
            loss = huber(most if threshold is None else real(threshold=threshold), most)
        elif isinstance(loss, str) and loss != "softmax":
            loss = named(loss)
        if isinstance(loss, Loss) and not loss.classifies:
            fault = f"classes = {classes!r} is for labels that are classes, not for the {loss.name} loss: leave it out"
            require(classes is None, fault)
            used, numbers = loss, _numbers(labels, "y", "leave out loss for classes")
            require(bool(np.isfinite(numbers).all()), "y has a value that is nan or infinite: fill it in")
            target = torch.from_numpy(numbers.clip(-LONGEST, LONGEST).astype(np.float32))
        else:
            names = _classes(y, classes)
            if classes is None:
                notes.append("classes read off the labels")
            used = loss if isinstance(loss, Loss) else softmax(len(names)) if loss else classifier(len(names))
            wanted = max(2, used.classes)
            require(
                len(names) == wanted,
                f"the {used.name} loss has {wanted} classes, not {len(names)}: use softmax",
            )
            target = _encoded(labels, names)
            target = target if used.classes > 1 else 2 * target - 1
        columns = [list(getattr(frame, "columns", ())) for frame in (public, X)]
        require(
            not all(columns) or columns[0] == columns[1],
            f"public has columns {columns[0]}, X has {columns[1]}: give public the columns of X, in their order",
        )
        return cls(
            x,
            used.labels(target[None]),
            used,
            row_bound=converter.bound,
            x_test=None if public is None else converter.of(public, np.shape(X)[1], name="public"),
            notes=tuple(notes),
            names=names,
            converter=converter,
        )

    def with_test_rows(self, X: Any) -> Glm:
        """Return the same problem with the rows X ``(m, features)`` to predict, cut if the private rows are.

        Margins are float64, so the other rows of X change a prediction by at most 1e-12.
        """
        if self.converter is None:
            raise ValueError("give the rows to predict as x_test: this problem is not made from_arrays")
        features = self.features - self.converter.bias
        return replace(self, x_test=self.converter.of(X, features, strict=False).double(), y_test=NO_TEST)

    def without_rows(self) -> Glm:
        """Return the problem without rows (n is 0); it holds what predictions need."""
        return replace(self, x=self.x[:, :0].clone(), y=self.y[:, :0].clone(), x_test=None, y_test=NO_TEST)

    @classmethod
    def from_dataset(cls, dataset: Dataset, seeds: int, loss: str | Loss | None = "logistic") -> Glm:
        """Return the problem for a scaled data set, in float32: one repeat that all S seeds share, or S repeats.

        Parameters
        ----------
        dataset : Dataset
        seeds : int, S.
        loss : Loss, str or None; None: logistic for two classes, softmax for more.

        Raises
        ------
        ValueError
            For another number of repeats, rows beyond the bound or float32, and labels that do not fit the loss.
        """
        loss = classifier(dataset.classes) if loss is None else named(loss)
        repeats = len(dataset.x_train)
        fault = f"the data set holds {repeats} repeats and {seeds} are asked for: prepare it with as many"
        require(repeats in (1, seeds), fault)
        x = torch.as_tensor(dataset.x_train, dtype=torch.float32)
        bound = float(dataset.meta.get("row_bound", 1.0))
        norm = float(x.norm(dim=2).max())
        longer = f"a row has norm {norm:.4g} > {bound:g}: scale the rows first (Dataset.scaled)"
        require(not norm > bound * (1 + 1e-5), longer)
        fault = f"the {loss.name} loss is for classes, the labels are numbers: use the huber loss"
        require(dataset.target is None or not loss.classifies, fault)
        y = loss.labels(torch.as_tensor(dataset.y_train, dtype=torch.float32))
        x_test = torch.as_tensor(dataset.x_test, dtype=torch.float32)
        for name, part in (("x_train", x), ("x_test", x_test)):
            large = f"{name} has a number above 3.4e38, the largest of float32: scale the rows first (Dataset.scaled)"
            require(bool(part.isfinite().all()), large)
        y_test = torch.as_tensor(dataset.y_test, dtype=torch.float32)
        if dataset.target is not None:
            y_test = in_units(y_test.double(), dataset.target)
            return cls(x, y, loss, row_bound=bound, x_test=x_test, y_test=y_test, target=dataset.target)
        y_test = loss.labels(y_test).long() if loss.classes > 1 else (y_test > 0).long()
        return cls(x, y, loss, row_bound=bound, x_test=x_test, y_test=y_test)

    @classmethod
    def of_features(
        cls,
        dataset: Dataset,
        seeds: int,
        row_norm: float | str | None,
        row_bound: float | None,
        smoothness: Literal["private", "public"],
        bias: bool = False,
    ) -> Glm:
        """Return softmax regression on features that all seeds share, cut by `Dataset.clipped`.

        `smoothness` is that of the mean loss, ``lambda_max(X^T X/n)/2``: "private" computes it from the rows, "public"
        takes its bound ``row_bound^2/2``.  The bias is a feature 1 of rows that are not cut.

        Source: ryffel2022, Lemma of section 5.1, after Boehning 1992: the smoothness.
        """
        known = smoothness in ("private", "public")
        require(known, f"smoothness = {smoothness!r} must be private or public")
        require(not bias or row_norm is None, "bias = true is for rows as they are: leave out row_norm")
        clipped = dataset.clipped(row_norm, row_bound)
        if bias:
            clipped = clipped.with_bias()
        problem = cls.from_dataset(clipped, seeds, softmax(dataset.classes))
        quantile = (
            math.inf if row_norm is not None else clipped.meta.get("public", {}).get("norm_q99", math.inf)
        )
        problem = replace(problem, notes=(_rows_note(clipped, row_norm),), row_quantile=float(quantile))
        if smoothness == "public":
            bounded = problem.row_bound < math.inf
            require(bounded, "smoothness = public needs rows with a public bound: set row_norm")
            return problem
        x = problem.x[0].double()
        top = float(torch.linalg.eigvalsh(x.mT @ x / problem.n)[-1])
        source = "step size from the largest eigenvalue of the private features, not accounted"
        return replace(
            problem,
            mean_smoothness=problem.loss.smoothness * top,
            private=(("mean_smoothness", source),),
        )

    @property
    def n(self) -> int:
        return self.x.shape[1]

    @property
    def features(self) -> int:
        return self.x.shape[2]

    @property
    def classes(self) -> int:
        return self.loss.classes

    @property
    def d(self) -> int:
        return self.classes * self.features

    @property
    def shared(self) -> bool:
        """True if all seeds have the same data set."""
        return self.x.shape[0] == 1

    @property
    def lipschitz(self) -> float:
        return self.loss.lipschitz * self.row_bound

    @property
    def facts(self) -> Facts:
        facts = linear_facts(
            self.loss,
            self.n,
            self.features,
            self.row_bound,
            public=0 if self.x_test is None else self.x_test.shape[1],
        )
        mean = facts.mean_smoothness if self.mean_smoothness is None else self.mean_smoothness
        classes = facts.classes if self.target is None else 1
        facts = facts._replace(classes=classes, mean_smoothness=mean)
        return facts._replace(
            private=dict(self.private), tested=self.converter is None, row_quantile=self.row_quantile
        )

    @property
    def device(self) -> torch.device:
        return self.x.device

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        return torch.zeros(seeds, self.d, device=self.device)

    def to(self, where: torch.dtype | torch.device) -> Glm:
        """Return the problem with private rows of another type, or with all rows on another device."""
        moved = replace(self, x=self.x.to(where), y=self.y.to(where))
        if isinstance(where, torch.dtype) or self.x_test is None:
            return moved
        return replace(moved, x_test=self.x_test.to(where))

    def value_and_grad(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``U``, ``(S, E)``, and its gradient, ``(S, E, d)``, at theta ``(S, E, d)``."""
        margins = self._margins(self._fold(theta), self.x)
        value = self.loss.value(margins, self.y[:, None]).sum(-1)
        grad = _times(self.loss.slope(margins, self.y[:, None]), self.x)
        return value.reshape(theta.shape[:-1]), grad.reshape(theta.shape)

    def grad(self, theta: Tensor) -> Tensor:
        """Return the gradient of ``U``, ``(S, E, d)``, at theta ``(S, E, d)``."""
        slope = self.loss.slope(self._margins(self._fold(theta), self.x), self.y[:, None])
        return _times(slope, self.x).reshape(theta.shape)

    def clipped_sum(
        self,
        theta: Tensor,
        rows: Tensor,
        mask: Tensor | None,
        clip: Tensor | None,
        weight: Tensor | None = None,
    ) -> Sums:
        """Return the sum in closed form by ``||g_i|| = ||phi'|| ||x||``; float64 over `engine.long_sums.LONG` rows.

        - `weight`: (S, E, d) >= 0, of the squared coordinates of the gradient in its norm, for losses of one margin.
        """
        slope, x = self._slope(theta, rows)  # (S, E, B) or (S, E, K, B)
        if self.device.type != "cpu" or diverged(theta):  # see `descent`
            slope = slope.nan_to_num(0.0, 0.0, 0.0)
        scale = None if mask is None else mask.to(slope.dtype)
        if clip is not None:
            lengths = (
                (self._all_lengths if x is self.x else x.norm(dim=-1))[:, None]
                if weight is None
                else self._margins(weight, x.square()).sqrt()
            )
            norm = (slope.abs() if self.classes == 1 else slope.norm(dim=-2)) * lengths
            # a weighted length may be infinite: times a slope of 0 it is nan, and the gradient is 0
            cut = torch.where(norm > clip[:, None], clip[:, None] / norm, 1.0)
            scale = cut if scale is None else cut.mul_(scale)
        if scale is not None:
            slope = slope * (scale if self.classes == 1 else scale[:, :, None])
        if len(x) < len(slope):  # all rows, which the seeds share: one product
            slope = slope.flatten(0, 1)[None]
        total = long_sums.weighted(slope if self.classes == 1 else slope.flatten(1, 2), x)
        return Sums(total.reshape(theta.shape))

    def predict(self, theta: Tensor) -> Tensor:
        """Return the predictions; for a single margin m, sigmoid(m) is the probability of +1, the second class.

        With a `target` they are the margins, clipped to [-1, 1], in the units of the target.
        """
        if self.target is not None:
            return in_units(self.predict_margins(theta).double().clamp(-1, 1), self.target)
        probabilities = []
        for margins in self._test_margins(theta):
            if self.classes == 1:
                margins = F.pad(margins, (0, 0, 1, 0))
            probabilities.append(margins.softmax(2).mT.cpu())
        return torch.cat(probabilities, 1)

    def predict_margins(self, theta: Tensor) -> Tensor:
        """Return the margins of the test rows on the CPU, ``(S, E, m, K)``; for a regression, the predictions."""
        return torch.cat([margins.mT.cpu() for margins in self._test_margins(theta)], 1)

    def _test_margins(self, theta: Tensor) -> Iterator[Tensor]:
        """Yield the margins of the test rows, ``(S, part of E, K, m)``: as many budgets at once as `TESTED` allows."""
        if self.x_test is None:
            raise ValueError("there are no test rows to predict: give the problem x_test")
        at_once = max(1, TESTED // (len(theta) * self.classes * self.x_test.shape[1]))
        for part in theta.split(at_once, 1):
            flat = part.reshape(len(self.x_test), -1, self.features)
            margins = flat.to(self.x_test.dtype) @ self.x_test.mT
            yield margins.view(*part.shape[:2], self.classes, -1)

    def descent(self, chains: Sequence[Chain]) -> FusedStep | None:
        """Return ``theta <- keep theta - eta/tau (sum_B min(1, clip/||g_i||) g_i + noise)``: one gather, two products.

        None where each step takes all rows, because `clipped_sum` then needs no gather, and where a minibatch has more
        than `engine.long_sums.LONG` rows, as this sum is float32.

        If ``phi'(m, y) = -y u(-y m)`` (`Loss.signed`), the gathered rows are ``z = -y x``. Then ``g = u(<z, theta>)
        z``, and clipping bounds u by ``clip/||x||``.
        """
        if (
            all(c.sampling.scheme == "full" for c in chains)
            or chains[0].sampling.size(self.n) > long_sums.LONG
        ):
            return None
        return _Fused(self, chains)

    def _gathered(self, signed: bool) -> Tensor:
        """Return x (or -y x if `signed`), label and length of each row, in whole cache lines of 16 numbers."""
        rows, labels = self.x.flatten(0, 1), self.y.expand(len(self.x), -1).flatten()
        sides = torch.stack([labels, rows.norm(dim=-1)], -1)
        filling = rows.new_zeros(len(rows), -(self.features + 2) % 16)
        return torch.cat([rows * -labels[:, None] if signed else rows, filling, sides], -1)

    def example_grads(self, theta: Tensor, rows: Tensor) -> Tensor:
        """Return the gradient of each row, ``(S, E, tau, d)``, for theta ``(S, E, d)`` and rows ``(S, tau)``."""
        slope, x = self._slope(theta, rows)
        if self.classes == 1:
            return slope[..., None] * x[:, None]
        return (slope.mT[..., None] * x[:, None, :, None]).flatten(-2)

    def hessian(self, theta: Tensor) -> Tensor:
        """Return the Hessian ``sum_i phi''(theta x_i) (x) x_i x_i^T``, ``(S, E, d, d)``; (x) is the Kronecker product.

        A row whose curvature is nan, because theta has diverged, adds nothing.
        """
        flat = self._fold(theta)
        shape = self.classes, self.features
        out = flat.new_empty(*flat.shape[:2], *shape, *shape)
        for r, x in enumerate(self.x):
            for c, at in enumerate(flat[r]):
                margins = self._margins(at[None, None], x)[0, 0]
                weight = self.loss.curvature(margins, self.y[r]).reshape(self.classes, self.classes, self.n)
                weight = weight.nan_to_num(0.0, 0.0, 0.0)
                for k in range(self.classes):
                    for j in range(self.classes):
                        out[r, c, k, :, j] = (x * weight[k, j][:, None]).T @ x
        return out.reshape(*theta.shape, self.d)

    @cached_property
    def gram(self) -> Tensor:
        """The matrix ``G = sum_i x_i x_i^T``, ``(S', features, features)``.

        ``loss.smoothness I (x) G``, with the Kronecker product (x), bounds the Hessian of U.
        """
        return self.x.mT @ self.x

    def _margins(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return the margins ``(S', C, n)`` or ``(S', C, K, n)``, for theta ``(S', C, d)``, x ``(S', n, features)``."""
        if self.classes == 1:
            return theta @ x.mT
        margins = theta.reshape(len(theta), -1, self.features) @ x.mT
        return margins.unflatten(1, (-1, self.classes))

    def _slope(self, theta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return phi' of a minibatch, ``(S, E, tau)`` or ``(S, E, K, tau)``, and the rows ``(S, tau, features)``.

        The rows have the shape of x if they are all rows in their order.
        """
        if rows.shape[1] == self.n and bool((rows == torch.arange(self.n, device=self.device)).all()):
            margins = self._margins(self._fold(theta), self.x)
            margins = margins.view(*theta.shape[:2], *margins.shape[2:])
            return self.loss.slope(margins, self.y[:, None]), self.x
        at = rows if self.shared else rows + self._offsets
        both = self._table.index_select(0, at.reshape(-1)).view(*rows.shape, -1)  # the label last
        x, y = both[..., :-1], both[..., -1]
        return self.loss.slope(self._margins(theta, x), y[:, None]), x

    @cached_property
    def _table(self) -> Tensor:
        """Rows and labels in one table, ``(1 or S times n, features + 1)``."""
        return torch.cat([self.x, self.y[..., None]], -1).reshape(-1, self.features + 1)

    @cached_property
    def _all_lengths(self) -> Tensor:
        return self.x.norm(dim=-1)

    @cached_property
    def _offsets(self) -> Tensor:
        return torch.arange(len(self.x), device=self.device)[:, None] * self.n

    def _fold(self, theta: Tensor) -> Tensor:
        """Return theta with seeds and budgets in one axis if all seeds share the rows."""
        return theta.reshape(1, -1, self.d) if self.shared else theta


class _Fused:
    """The step of `Glm.descent`."""

    def __init__(self, problem: Glm, chains: Sequence[Chain]) -> None:
        self.loss, self.classes, self.features = problem.loss, problem.classes, problem.features
        self.size, self.chains = chains[0].sampling.size(problem.n), len(chains)
        self.table = problem._gathered(self.loss.signed is not None)
        self.offsets = None if problem.shared else problem._offsets
        self.split = sum(c.sampling.scheme not in RANDOM_SIZE for c in chains)
        self.clips = torch.tensor([[c.clip] for c in chains], device=problem.device)
        self.here = problem.device.type == "cpu"  # elsewhere a look at a number would wait for the device
        self.clipped = not bool(self.clips.isinf().all())
        self.common = bool((self.clips == self.clips[0]).all())
        at_once = CELLS // (self.size * self.features)  # seeds
        if not self.here:  # rows, margins and what is computed of them, four times over
            each = self.size * (self.table.shape[1] + self.chains * self.classes)
            at_once = memory.bound(problem.device) // (4 * each * self.table.element_size())
        self.at_once = max(1, at_once)
        self.space = Space(self.table)
        self.exact = Space(self.table.new_empty(0, dtype=torch.float64))

    def __call__(
        self,
        theta: Tensor,
        batch: Batch,
        eta: Tensor,
        keep: Tensor,
        noise: tuple[Tensor, Tensor] | None = None,
        /,
    ) -> None:
        share = eta / self.size
        for first in range(0, len(theta), self.at_once):
            seeds = slice(first, first + self.at_once)
            for part, rows, sizes in self._minibatches(batch, seeds):
                at = theta[seeds, part]
                total = self._sum(at, rows, sizes, self.clips[:1] if self.common else self.clips[part])
                if noise is not None:
                    std, shift = noise[0][part], noise[1][part]
                    noisy = self.exact("noisy", *at.shape).copy_(total)
                    normals = batch.normals[seeds].double()
                    total.copy_(noisy.addcmul_(normals, std).add_(shift).sub_(shift))
                at.mul_(keep[part]).sub_(total.mul_(share[part]))

    def _minibatches(self, batch: Batch, seeds: slice) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
        """Yield chains, their rows ``(S, B, width)``, see `_gathered`, and how many take part ``(S, 1)``; None: all."""
        sizes = None if batch.sizes is None or self.split == self.chains else batch.sizes[seeds, None]
        longest = self.size if self.split else 0
        if sizes is not None:
            longest = max(longest, int(sizes.max()), 1) if self.here else batch.rows.shape[1]
        at = batch.rows[seeds, :longest]
        if self.offsets is not None:
            at = at + self.offsets[seeds]
        width = self.table.shape[1]
        rows = self.space("rows", *at.shape, width)
        torch.index_select(self.table, 0, at.reshape(-1), out=rows.view(-1, width))
        if self.split:
            yield slice(0, self.split), rows[:, : self.size], None
        if sizes is not None:
            yield slice(self.split, None), rows, sizes

    def _sum(self, theta: Tensor, rows: Tensor, sizes: Tensor | None, clips: Tensor) -> Tensor:
        """Return the sum of clipped gradients ``(S, E, d)``, for clips ``(E, 1)`` or ``(1, 1)``."""
        x, label, norm = rows[..., : self.features], rows[:, None, :, -2], rows[:, None, :, -1]
        folded = theta.view(len(theta), -1, self.features)  # (S, E K, p)
        slope = torch.bmm(folded, x.mT, out=self.space("margins", *folded.shape[:2], x.shape[1]))
        outside = None  # (S, 1, B)
        if sizes is not None:
            outside = (torch.arange(x.shape[1], device=x.device) >= sizes)[:, None]
        if not self.here or diverged(theta):  # no row may turn infinite numbers of a chain into nan
            slope.nan_to_num_(0.0, 0.0, 0.0)
        if self.loss.signed:
            self.loss.signed(slope)  # (S, E, B)
            if self.clipped:
                limit = clips / norm
                limit = limit if outside is None else limit.masked_fill_(outside, 0.0)
                torch.minimum(slope, limit, out=slope)
        else:
            slope = self.loss.slope(
                slope if self.classes == 1 else slope.unflatten(1, (-1, self.classes)), label
            )
            if self.clipped:
                length = slope.abs() if self.classes == 1 else slope.square().sum(-2).sqrt_()
                weight = (clips / length.mul_(norm)).clamp_(max=1.0)
                slope.mul_(weight if self.classes == 1 else weight[..., None, :])
            slope = slope.view(*folded.shape[:2], -1)
        if outside is not None and not (self.loss.signed and self.clipped):
            slope.masked_fill_(outside, 0.0)
        return torch.bmm(slope, x, out=self.space("total", *folded.shape)).view(theta.shape)


def diverged(theta: Tensor) -> bool:
    """Return True if a coordinate is nan or beyond `FARTHEST`: then a margin may be infinite or nan."""
    return not bool(theta.abs().amax() < FARTHEST) if theta.numel() else False


def in_units(y: Tensor, target: tuple[float, float]) -> Tensor:
    """Return ``low + (high - low)(y + 1)/2``: labels y in [-1, 1], in the units of the target (low, high)."""
    low, high = target
    return low + (high - low) * (y + 1) / 2


def linear_facts(loss: Loss, n: int, features: int, row_bound: float, public: int = 0) -> Facts:
    """Return the public facts of a linear model, without its rows."""
    count(0, records=n, public=public)
    count(1, features=features)
    require(
        real(row_bound=row_bound) > 0, f"row_bound = {row_bound!r} must be above 0: give the public bound"
    )
    smoothness = loss.smoothness * row_bound**2
    return Facts(
        n=n,
        d=loss.classes * features,
        classes=max(2, loss.classes),
        lipschitz=loss.lipschitz * row_bound,
        smoothness=smoothness,
        mean_smoothness=smoothness,
        row_bound=row_bound,
        public=public,
        loss=loss,
    )


def _numbers(given: Any, name: str, fix: str) -> np.ndarray:
    """Return an array in float64; raise ValueError for text and complex numbers, which numpy would cast, too."""
    try:
        values = np.asarray(given)
        kind = values.dtype.kind
        odd = (str, bytes, complex, np.complexfloating) if kind == "O" else ()
        fault = next((f"it has a {type(each).__name__}" for each in values.flat if isinstance(each, odd)), "")
        require(kind in "buifO" and not fault, fault or f"its type is {values.dtype}")
        return values.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{name} is no array of real numbers ({error}): {fix}") from error


def _classes(y: Any, classes: Sequence[Any] | None) -> tuple[Any, ...]:
    """Return the classes in order: those given, or the labels in y. These are private: no message shows one."""
    given, name = (y, "y") if classes is None else (classes, "classes")
    fix = "give a list of labels of one type, such as classes=['no', 'yes']"
    try:
        mixed = isinstance(given, list | tuple) and len({isinstance(each, str) for each in given}) > 1
        listed = np.ndim(given) == 1 and not mixed
        names = tuple(np.unique(np.asarray(y)).tolist() if classes is None else np.asarray(classes).tolist())
        distinct = len(set(names)) == len(names)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has labels of several types, None or lists: {fix}") from error
    require(listed, f"{name} has labels of several types, or is no list: {fix}")
    missing = any(each is None or (isinstance(each, float) and not math.isfinite(each)) for each in names)
    require(not missing, f"{name} has nan, infinity or None: every row needs a label")
    fault = (
        "y has only one class" if classes is None else f"classes = {classes!r} must be distinct, two or more"
    )
    require(distinct and len(names) > 1, f"{fault}: give all that there can be as classes")
    return names


def _encoded(y: np.ndarray, names: tuple[Any, ...]) -> Tensor:
    place = {name: float(k) for k, name in enumerate(names)}
    coded = [place.get(label, -1.0) for label in y.tolist()]
    require(min(coded) >= 0, f"y has a label that is not among classes {[*names]}: give all there can be")
    return torch.tensor(coded)


def _times(slope: Tensor, x: Tensor) -> Tensor:
    """Return ``sum_i phi'_i x_i^T``, ``(S', C, d)``, for slopes ``(S', C, n)`` or ``(S', C, K, n)``."""
    return slope @ x if slope.dim() == 3 else (slope.flatten(1, 2) @ x).reshape(*slope.shape[:2], -1)


def _rows_note(features: Dataset, norm: float | str | None) -> str:
    if norm is None:
        return "rows as they are"
    public, source = features.meta.get("public", {}), f"norm {norm}, chosen without accounting"
    if norm in public:
        source = f"{norm} = {public[norm]:.4g} of the features of {public['images']} public images ({public['set']})"
    return f"rows cut to {source}, and scaled to {features.meta['row_bound']:.4g}"
