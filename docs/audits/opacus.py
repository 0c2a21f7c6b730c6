import numpy as np
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

X = torch.tensor([[1, 0], [0.05, 0.0866], [-0.05, 0.0866], [-0.1, 0], [-0.05, -0.0866], [0.05, -0.0866]])
y = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 1.0])


def event(X, y, seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(2, 1)
    for weights in model.parameters():
        torch.nn.init.zeros_(weights)
    engine, loader = PrivacyEngine(), DataLoader(TensorDataset(X, y), batch_size=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=2.0, max_grad_norm=1.0
    )
    for _ in range(2):
        for x, label in loader:
            optimizer.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], label).backward()
            optimizer.step()
    return float(sum((weights**2).sum() for weights in model.parameters()))


sizes = [[event(*table, seed) for seed in range(1000)] for table in ((X, y), (X[1:], y[1:]))]
print("mean squared norm of the weights", np.mean(sizes, axis=1))
print("quantiles", np.quantile(sizes, [0.01, 0.5, 0.9, 0.99, 0.999], axis=1))
