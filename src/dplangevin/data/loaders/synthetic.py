"""Two normal distributions, the data of wang2015, Figure 1(a).

y = -1 or +1 with equal probability, and x | y ~ N(y m e_1, I_d). The best classifier is the sign of x_1. Its
accuracy is Phi(m).
"""

from pathlib import Path

import numpy as np

from dplangevin.data import Dataset, generator


def load(
    folder: str | Path,
    mean: float,
    d: int,
    n_train: int,
    n_test: int,
    seed: int,
    repeats: int,
    row_norm_bound: float,
    limit: int | None = None,
) -> Dataset:
    """Draw a training set for each repeat, x_train (R, n_train, d), and common test points (1, n_test, d).

    In each set, exactly half of the rows (rounded down) have the label +1, in random order. There is no bias, because
    the best boundary passes through the origin. The stream (seed, "synthetic/data") gives the test points first, so
    that the first repeats do not depend on the number of later ones. `mean` is m.

    Differs: the paper gives neither means, dimension nor sizes.
    """
    rng = generator(seed, "synthetic/data")

    def draw(sets: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        n = n if limit is None else min(n, limit)
        x, y = np.empty((sets, n, d), np.float32), np.empty((sets, n), np.float32)
        for r in range(sets):
            y[r] = np.where(np.argsort(rng.random(n), kind="stable") < n // 2, 1.0, -1.0)
            z = rng.standard_normal((n, d))
            z[:, 0] += mean * y[r]
            x[r] = z
        return x, y

    x_test, y_test = draw(1, n_test)
    x_train, y_train = draw(repeats, n_train)
    features = [f"x{j}" for j in range(1, d + 1)]
    meta = {"name": "synthetic", "features": features, "row_norm_bound": row_norm_bound}
    return Dataset(x_train, y_train, x_test, y_test, meta)
