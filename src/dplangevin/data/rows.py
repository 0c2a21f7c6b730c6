"""Rows whose norm a public constant bounds."""

import math

import numpy as np

from dplangevin.checks import require

# Scaled rows are divided by this factor and so become shorter by 2.4e-7. Their norm then stays <= 1 in
# float64 and after rounding to float32.
MARGIN = 1.0 + 2.0**-22
LARGE = 1e150  # the squares of numbers up to this do not overflow, and those from 1 / LARGE do not vanish


def row_norms(x: np.ndarray) -> np.ndarray:
    """Return ||x||_2 over the last axis in float64: (..., d) to (...), with the same bits on any machine."""
    total = np.zeros(x.shape[:-1])
    for j in range(x.shape[-1]):
        total += np.square(x[..., j].astype(np.float64))
    return np.sqrt(total)


def scale_rows(x: np.ndarray, how: str, public: float) -> np.ndarray:
    """Return rows (..., d) in float64, scaled by the public constant B as `Dataset.scaled` says, and checked."""
    bound = public if how == "raw" else 1.0
    wide = x.astype(np.float64)
    norms = row_norms(wide)
    if how == "unit":
        divisor = np.where(norms > 0, norms, 1.0)
    elif how == "global":
        divisor = np.maximum(norms, public)
    else:
        divisor = np.maximum(norms / public, 1 / MARGIN)
    scaled = wide / (divisor * MARGIN)[..., None]
    longest = float(row_norms(scaled).max(initial=0.0))
    assert longest <= bound, f"a row has norm {longest!r} after scaling {how!r}"
    return scaled


def clip_rows(x: np.ndarray, norm: float, bound: float) -> np.ndarray:
    """Return the rows ``x bound/max(norm, ||x||)`` (..., d) in float32; norm and bound are public constants.

    Rows are shortened by a further factor 1 + 2^-22, so that no row exceeds `bound`. If both are inf, rows stay as
    they are. Otherwise bound is in [1e-18, 1e18], because float32 can hold the squares of numbers in this range;
    rows of larger numbers than LARGE are first divided by a constant.
    """
    positive = norm > 0 and bound > 0 and math.isinf(norm) == math.isinf(bound)
    require(
        positive, f"row_norm = {norm} and row_bound = {bound} must be positive, and both finite or neither"
    )
    if norm == math.inf:
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(x, dtype=np.float32)
        why = "a row has a number that float32 does not hold, nan or above 3.4e38: scale the rows"
        require(bool(np.isfinite(rows).all()), why)
        return rows
    require(
        1e-18 <= bound <= 1e18 and 1 / LARGE <= norm <= LARGE,
        f"row_bound = {bound:g} must be in [1e-18, 1e18], where float32 has squares, and row_norm = {norm:g} in "
        f"[{1 / LARGE:g}, {LARGE:g}]: scale the rows by a public constant, and their bound with them",
    )
    require(bool(np.isfinite(x).all()), "a row has a number that is nan or infinite: fill it in")
    wide = x.astype(np.float64)
    wide /= np.maximum(np.abs(wide).max(-1, keepdims=True) / LARGE, 1.0)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return (wide * (bound / np.maximum(lengths, norm)) / MARGIN).astype(np.float32)
