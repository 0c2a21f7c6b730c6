import numpy as np
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

X, y = torch.zeros(6, 100), torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
X[:, 0] = torch.tensor([1.0, 0.05, -0.05, -0.1, -0.05, 0.05])


def event(X, y, seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(100, 1)
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
    return float(sum((weights**2).sum() for weights in model.parameters())) > 70


p, q = (np.mean([event(*table, seed) for seed in range(200)]) for table in ((X[1:], y[1:]), (X, y)))
print(
    f"rate of the event: {p:.4f} with 5 records, {q:.4f} with 6; the claim allows {np.exp(2.8132) * q + 1e-5:.4f} with 5"
)
