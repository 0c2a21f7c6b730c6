"""Functions of published packages that have no `fit`, as `dplangevin audit --train` takes them.

Each releases what the function of the package returns for the first column, or the weights that it trains.
"""

from typing import Any

import numpy as np
import torch

Table = Any  # with X and y
BOUNDS = -1.0, 1.0
STEPS, BATCH, NOISE, FEATURES = 4, 3, 2.0, 100  # of Opacus; features beyond those of the table are 0


def mean(table: Table, seed: int) -> Any:
    """Return diffprivlib's mean."""
    return _tools().mean(table.X[:, 0], epsilon=1.0, bounds=BOUNDS, random_state=seed)


def var(table: Table, seed: int) -> Any:
    """Return diffprivlib's variance."""
    return _tools().var(table.X[:, 0], epsilon=1.0, bounds=BOUNDS, random_state=seed)


def std(table: Table, seed: int) -> Any:
    """Return diffprivlib's standard deviation."""
    return _tools().std(table.X[:, 0], epsilon=1.0, bounds=BOUNDS, random_state=seed)


def total(table: Table, seed: int) -> Any:
    """Return diffprivlib's sum."""
    return _tools().sum(table.X[:, 0], epsilon=1.0, bounds=BOUNDS, random_state=seed)


def quantile(table: Table, seed: int) -> Any:
    """Return diffprivlib's median."""
    return _tools().quantile(table.X[:, 0], 0.5, epsilon=1.0, bounds=BOUNDS, random_state=seed)


def histogram(table: Table, seed: int) -> Any:
    """Return diffprivlib's histogram with four bins."""
    return _tools().histogram(table.X[:, 0], epsilon=1.0, bins=4, range=BOUNDS, random_state=seed)[0]


def k_means(table: Table, seed: int) -> Any:
    """Return how far diffprivlib's inertia_ is from that of the other rows and (1, 0), by the noisy centres."""
    from diffprivlib.models import KMeans

    model = KMeans(2, epsilon=1.0, bounds=BOUNDS, random_state=seed).fit(table.X)
    rows = np.concatenate([[[1.0, 0.0]], table.X[1:]])
    return model.inertia_ - ((rows[:, None] - model.cluster_centers_) ** 2).sum(2).min(1).sum()


def regression(table: Table, seed: int) -> Any:
    """Return the slope by diffprivlib's LinearRegression on the size of the first column, in (0, 1)."""
    from diffprivlib.models import LinearRegression

    model = LinearRegression(bounds_X=(0, 1), bounds_y=BOUNDS, fit_intercept=False, random_state=seed)
    return model.fit(np.abs(table.X[:, :1]), table.y).coef_


def _tools() -> Any:
    from diffprivlib import tools

    return tools


def opendp_sum(table: Table, seed: int) -> Any:
    """Return OpenDP's sum with Laplace noise; its noise comes from the system and not from the seed."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows = dp.vector_domain(dp.atom_domain(bounds=BOUNDS), len(table.y)), dp.symmetric_distance()
    release = rows >> dp.t.then_sum() >> dp.m.then_laplace(scale=2.0)
    assert release.map(2) <= 1.0 + 1e-6  # one record replaced is a distance of 2
    return release(table.X[:, 0].tolist())


def opacus(table: Table, seed: int) -> Any:
    """Return the squared norm of the weights of a logistic regression that Opacus trains for four steps."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    X = np.pad(table.X, ((0, 0), (0, FEATURES - table.X.shape[1])))
    data = TensorDataset(torch.tensor(X).float(), torch.tensor(table.y).float())
    model: Any = torch.nn.Linear(FEATURES, 1)
    for weights in model.parameters():
        torch.nn.init.zeros_(weights)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.5)
    loader: Any = DataLoader(data, batch_size=BATCH)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=NOISE, max_grad_norm=1.0
    )
    for _ in range(STEPS // len(loader)):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y).backward()
            optimizer.step()
    return float(sum((weights.detach() ** 2).sum() for weights in model.parameters()))
