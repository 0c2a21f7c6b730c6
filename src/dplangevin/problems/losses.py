"""Convex losses of the margins of a row, with the constants that privacy proofs and samplers need."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dplangevin.checks import positive

Margins = Callable[[Tensor, Tensor], Tensor]
FUNCTIONS = "value", "slope", "curvature", "on_ball", "labels"
CELLS = 2**16  # cells of the grid in `largest_cross_entropy`


class Loss(NamedTuple):
    """A convex loss ``phi(m, y)`` of the margins m of a row with label y, with the constants that bound it; picklable.

    m has shape ``(..., n)`` with one margin per row (classes = 1), ``(..., K, n)`` with K; y has shape ``(..., n)``.

    - `value`, `slope`, `curvature`: phi ``(..., n)``, its gradient in m, of m's shape, whose computation may overwrite
      m, and its Hessian in m, ``(..., n)`` or ``(..., K, K, n)``.
    - `lipschitz`, `smoothness`: ``sup ||phi'||``, inf where unbounded, and ``sup ||phi''||``.
    - `classes`: Number of margins of a row.
    - `rank`: Dimension of the span of phi', which is not less than the rank of phi''.
    - `trace`: ``sup tr phi''``; None for ``rank * smoothness``.
    - `kinked`: phi'' has jumps.
    - `one_sided`: phi' is a number u >= 0 times a vector that depends only on y.
    - `signed`: u >= 0 with ``phi'(m, y) = -y u(-y m)`` for y in {-1, +1}, computed in place; None for another form.
    - `on_ball`: From t to the largest phi over ``||m|| <= t`` and y, and the largest range of phi there for one y. None
      where these are unbounded.
    - `labels`: From a data set's labels to those of this loss; raises ValueError for labels that do not fit.
    - `label_bound`: ``sup |y|``, where labels are numbers.
    """

    name: str
    value: Margins
    slope: Margins
    curvature: Margins
    lipschitz: float
    smoothness: float
    classes: int = 1
    rank: int = 1
    trace: float | None = None
    kinked: bool = False
    one_sided: bool = False
    signed: Callable[[Tensor], Tensor] | None = None
    on_ball: Callable[[float], tuple[float, float]] | None = None
    labels: Callable[[Tensor], Tensor] = torch.as_tensor
    label_bound: float = 1.0

    @property
    def classifies(self) -> bool:
        """True if labels are classes, False if they are real numbers."""
        return self.classes > 1 or self.one_sided

    @property
    def mean_curvature(self) -> float:
        """Bound on the mean of the `rank` eigenvalues of phi''."""
        return self.smoothness if self.trace is None else self.trace / self.rank


class _Logistic:
    """The loss log(1 + e^(-y m)), y in {-1, +1}."""

    @staticmethod
    def value(m: Tensor, y: Tensor) -> Tensor:
        return F.softplus(-y * m)

    @staticmethod
    def slope(m: Tensor, y: Tensor) -> Tensor:
        return m.mul_(-y).sigmoid_().mul_(-y)

    @staticmethod
    def curvature(m: Tensor, y: Tensor) -> Tensor:
        return torch.sigmoid(m) * torch.sigmoid(-m)

    @staticmethod
    def on_ball(t: float) -> tuple[float, float]:
        return t + math.log1p(math.exp(-t)), t  # the maximum log(1 + e^t), and that minus log(1 + e^-t)


class _Squared:
    """The loss (m - y)^2/2."""

    @staticmethod
    def value(m: Tensor, y: Tensor) -> Tensor:
        return 0.5 * (m - y) ** 2

    @staticmethod
    def slope(m: Tensor, y: Tensor) -> Tensor:
        return m.sub_(y)

    @staticmethod
    def curvature(m: Tensor, y: Tensor) -> Tensor:
        return torch.ones_like(m)


def _made(name: str, of: Any, **constants: Any) -> Loss:
    """Return the loss of the functions of an object, with its constants."""
    functions = {part: getattr(of, part) for part in FUNCTIONS if hasattr(of, part)}
    return Loss(name, **functions, **constants)


LOGISTIC = _made("logistic", _Logistic, lipschitz=1.0, smoothness=0.25, one_sided=True, signed=torch.sigmoid_)
SQUARED = _made("squared", _Squared, lipschitz=math.inf, smoothness=1.0)


def huber(threshold: float, label_bound: float) -> Loss:
    """Return the loss of linear regression with clipped residuals, ``phi' = clip(m - y, -h, h)`` (Huber 1964).

    For the threshold h, and the public bound Y with ``|y| <= Y``, it is::

        phi = (m - y)^2/2 where |m - y| <= h, else h |m - y| - h^2/2

    Let ``phi(r)`` be phi at the residual r. Over ``|m| <= t`` phi is at most ``phi(t + Y)``. For one y its range is
    ``phi(t + |y|) - phi(max(|y| - t, 0))``, which grows with ``|y|``.
    """
    positive(threshold=threshold, label_bound=label_bound)
    h, bound = float(threshold), float(label_bound)
    return _made("huber", _Huber(h, bound), lipschitz=h, smoothness=1.0, kinked=True, label_bound=bound)


class _Huber(NamedTuple):
    threshold: float
    label_bound: float

    def value(self, m: Tensor, y: Tensor) -> Tensor:
        size = (m - y).abs()
        linear = self.threshold * (size - self.threshold / 2)
        return torch.where(size <= self.threshold, size.square() / 2, linear)

    def slope(self, m: Tensor, y: Tensor) -> Tensor:
        return m.sub_(y).clamp_(-self.threshold, self.threshold)

    def curvature(self, m: Tensor, y: Tensor) -> Tensor:
        return ((m - y).abs() <= self.threshold).to(m.dtype)

    def on_ball(self, t: float) -> tuple[float, float]:
        most = self.at(t + self.label_bound)
        return most, most - self.at(max(self.label_bound - t, 0.0))

    def at(self, residual: float) -> float:
        """Return phi at a residual >= 0."""
        if residual <= self.threshold:
            return residual**2 / 2
        return self.threshold * (residual - self.threshold / 2)

    def labels(self, y: Tensor) -> Tensor:
        size = float(y.abs().max())
        if size > self.label_bound * (1 + 1e-6):
            raise ValueError(
                f"a label has absolute value {size:.4g} > label_bound {self.label_bound:g}: "
                "raise it or scale the labels"
            )
        return y.clamp(-self.label_bound, self.label_bound)


def softmax(classes: int) -> Loss:
    """Return the loss of softmax regression, ``phi = log sum_k e^(m_k) - m_y``, with labels 0, ..., K - 1.

    Let p be the probabilities. Then ``phi' = p - e_y`` has the squared norm ``(1 - p_y)^2 + sum_{k != y} p_k^2 < 2``.
    ``phi'' = diag(p) - p p^T`` has norm <= 1/2 (Boehning 1992), trace ``1 - sum p^2 <= 1 - 1/K``, and rank K - 1, since
    ``phi'' 1 = 0``. For K = 2, ``phi' = (1 - p_y)(e_k - e_y)`` has one direction for each label, and labels -1 and +1
    mean 0 and 1.
    """
    if classes < 2:
        raise ValueError(f"classes must be at least 2, not {classes}")
    constants: dict[str, Any] = {"lipschitz": math.sqrt(2), "smoothness": 0.5, "trace": 1 - 1 / classes}
    constants |= {"classes": classes, "rank": classes - 1, "one_sided": classes == 2}
    return _made("softmax", _Softmax(int(classes)), **constants)


class _Softmax(NamedTuple):
    classes: int

    def value(self, m: Tensor, y: Tensor) -> Tensor:
        index = y.long()[..., None, :].expand(*m.shape[:-2], 1, m.shape[-1])
        return m.logsumexp(-2) - m.gather(-2, index).squeeze(-2)

    def slope(self, m: Tensor, y: Tensor) -> Tensor:
        each = torch.arange(self.classes, dtype=y.dtype, device=y.device)[:, None]
        return m.softmax(-2).sub_((y[..., None, :] == each).to(m.dtype))

    def curvature(self, m: Tensor, y: Tensor) -> Tensor:
        p = m.softmax(-2)
        unit = torch.eye(self.classes, dtype=m.dtype, device=m.device)[..., None]
        return p[..., :, None, :] * (unit - p[..., None, :, :])

    def on_ball(self, t: float) -> tuple[float, float]:
        classes, most = self.classes, largest_cross_entropy(self.classes, t)
        # phi is least at equal m_k, k != y: averaging over permutations of these lowers phi, which is convex,
        # and the norm
        least = float(np.logaddexp(0, math.log(classes - 1) - t * math.sqrt(classes / (classes - 1))))
        return most, most - least

    def labels(self, y: Tensor) -> Tensor:
        if self.classes == 2 and bool((y.abs() == 1).all()):
            y = (y > 0).to(y.dtype)
        if not bool(torch.isin(y, torch.arange(self.classes, dtype=y.dtype, device=y.device)).all()):
            found = y.unique()[:5].tolist()
            raise ValueError(
                f"labels {found} do not fit softmax with {self.classes} classes: need 0, ..., {self.classes - 1}"
            )
        return y


def largest_cross_entropy(classes: int, t: float) -> float:
    """Return an upper bound on the cross entropy phi over ``||m|| <= t``, with relative error below 1e-4.

    With ``phi = log(1 + sum_{k != y} e^(m_k - m_y))`` the proof has these steps.

    1. phi is convex, so its maximum is on the sphere, where ``phi' = p - e_y = lambda m`` with lambda > 0. Hence ``sum
       m = 0``, and ``m_k = p_k/lambda > 0`` for k != y.
    2. There ``phi'' - lambda I`` is not positive on tangents of the sphere. For ``m_k = m_l`` the tangent ``e_k - e_l``
       gives ``2 p_k - 2 lambda <= 0``, that is ``m_k <= 1``.
    3. All ``m_k e^(-m_k)``, k != y, are equal: m_k is a root in (0, 1] or one above 1, by step 2 for at most one class.
    4. So m is u for one class, v <= u for the r = K - 2 other classes, and ``-a = -(u + r v)`` for y, with
       ``a^2 + u^2 + r v^2 = t^2``. This is a curve in ``v in [0, t/sqrt(K (K - 1))]``.
    5. On it ``a + u = sqrt(2 t^2 - (r^2 + 2 r) v^2)`` falls and ``a + v = (r + 2) v/2 + (a + u)/2`` grows. So the
       values at the ends of each cell of a grid of v bound phi in the cell.

    For K = 2 the maximum is ``log(1 + e^(sqrt(2) t))``.
    """
    r = classes - 2
    v = np.linspace(0.0, t / math.sqrt(classes * (classes - 1)), CELLS + 1)
    high = np.sqrt(2 * t * t - (r * r + 2 * r) * v * v)  # a + u
    low = (r + 2) * v / 2 + high / 2  # a + v
    if r == 0:
        return float(np.logaddexp(0, high[0]))
    return float(np.logaddexp(np.logaddexp(0, high[:-1]), math.log(r) + low[1:]).max())


LOSSES = {loss.name: loss for loss in (LOGISTIC, SQUARED)}


def classifier(classes: int) -> Loss:
    """Return the logistic loss for two classes, softmax for more."""
    return LOGISTIC if classes == 2 else softmax(classes)


def named(loss: str | Loss) -> Loss:
    """Return the loss of that name, or the `Loss` itself; only losses without parameters have names."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"loss {loss!r} is unknown: choose one of {sorted(LOSSES)}")
    return LOSSES[loss]
