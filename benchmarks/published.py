"""Functions of published packages that have no `fit`, as `dplangevin audit --train` takes them.

Each releases what the function of the package returns for the first column, or the weights that it trains.
"""

from typing import Any

import numpy as np
import torch

Table = Any  # with X and y
BOUNDS = -1.0, 1.0
STEPS, BATCH, NOISE = 4, 3, 2.0  # of Opacus


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
    """Return the weights of a logistic regression that Opacus trains for four steps, and its epsilon."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    data = TensorDataset(torch.tensor(table.X).float(), torch.tensor(table.y).float())
    model: Any = torch.nn.Linear(table.X.shape[1], 1)
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
    return {name: value.detach().numpy().astype(np.float64) for name, value in model.state_dict().items()}
