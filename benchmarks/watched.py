"""What watching a training costs: a step of a small network with `dplangevin.watch` and without."""

import time
import warnings
from contextlib import nullcontext
from statistics import median

import torch
from measure import Options, Row, verdict
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dplangevin import watch

REQUIRED = 1.02
ROWS, BATCH = 12_800, 128


def rows(options: Options) -> list[Row]:
    warnings.simplefilter("ignore")  # Opacus and torch warn of each other's versions
    return [row(options, private) for private in (True, False)]


def row(options: Options, private: bool) -> Row:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(ROWS, 784), torch.arange(ROWS) % 10)
    loader = DataLoader(data, BATCH, shuffle=True)
    model: nn.Module = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if private:
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
        )

    def epoch() -> float:
        start = time.process_time()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return (time.process_time() - start) / len(loader) * 1e3

    taken: dict[bool, list[float]] = {False: [], True: []}
    rounds = 1 if options.scale == "smoke" else 9 if private else 21
    for number in range(2 * rounds):  # pairs, in turns
        watched = number % 2 == 1
        with watch(model, optimizer, loader, claim=1.0) if watched else nullcontext():
            taken[watched].append(epoch())
    ratios = [after / before for before, after in zip(taken[False], taken[True], strict=True)]
    ratio = median(ratios)
    how = f"processor time, median of {rounds} pairs of epochs of {ROWS // BATCH} steps; 784-128-10, {BATCH} rows"
    plain, seen = (f"{median(taken[each]):.3f} ms" for each in (False, True))
    name = "DP-SGD by Opacus" if private else "no privacy"
    return Row(f"a watched step, {name}", seen, plain, f"{ratio:.3f}", f"<= {REQUIRED}", verdict(ratio <= REQUIRED),
        str(options.threads), how)  # fmt: skip
