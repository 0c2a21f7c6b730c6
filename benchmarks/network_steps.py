"""The sides of networks.py: one training step of a network, ours, PyTorch's without privacy, and Opacus's."""

import copy
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from dplangevin.engine.clipped import clipped_sum
from dplangevin.networks import Network

CONF = Path(__file__).resolve().parents[1] / "conf/problem"
MODES = ("hooks", "functorch", "ew", "ghost")
FORMATS = {"": torch.contiguous_format, ", channels last": torch.channels_last}
BATCH = 128
CLIP, NOISE, STEP = 0.3, 1.0, 1e-4
Step = Callable[[], object]


def sides(name: str) -> dict[str, Callable[[], Step]]:
    """What makes the step of each, on a network of conf/problem/."""
    found: dict[str, Callable[[], Step]] = {"ours": partial(private, name)}
    for text, layout in FORMATS.items():
        found[f"plain{text}"] = partial(plain, name, layout)
        found |= {f"{mode}{text}": partial(opacus, name, mode, layout) for mode in MODES}
    return found


def problem(name: str, seeds: int = 1, batch: int = BATCH) -> tuple[Network, Tensor, Tensor, Tensor]:
    network: Network = instantiate(OmegaConf.load(CONF / f"{name}.yaml").network)
    rng = torch.Generator().manual_seed(1)
    x = torch.rand(seeds, batch, *network.shape, generator=rng) * 2 - 1
    return (
        network,
        network.init(rng, seeds),
        x,
        torch.randint(0, network.classes, (seeds, batch), generator=rng),
    )


def private(name: str, seeds: int = 1, batch: int = BATCH) -> Step:
    network, theta, x, y = problem(name, seeds, batch)
    mask, rng = torch.ones(seeds, batch, dtype=torch.bool), torch.Generator().manual_seed(2)

    def step() -> None:
        total = clipped_sum(network, theta, x, y, mask, CLIP).gradient
        total.add_(torch.randn(total.shape, generator=rng), alpha=NOISE * CLIP)
        theta.add_(total, alpha=-STEP / batch)

    return step


def trained(name: str, layout: torch.memory_format) -> tuple[torch.nn.Module, Tensor, Tensor]:
    network, theta, x, y = problem(name)
    module = copy.deepcopy(network.module)
    torch.nn.utils.vector_to_parameters(theta[0], module.parameters())
    return module.to(memory_format=layout), x[0].to(memory_format=layout), y[0]  # type: ignore[call-overload]


def plain(name: str, layout: torch.memory_format) -> Step:
    module, x, y = trained(name, layout)
    optimiser = torch.optim.SGD(module.parameters(), lr=STEP)

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimiser.step()

    return step


def opacus(name: str, mode: str, layout: torch.memory_format) -> Step:
    """The batch is given, not drawn: `make_private` wants a loader, but it is not read."""
    module, x, y = trained(name, layout)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus import PrivacyEngine

        made: Any = PrivacyEngine().make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=STEP),
            criterion=torch.nn.CrossEntropyLoss(),
            data_loader=DataLoader(TensorDataset(x, y), batch_size=BATCH),
            noise_multiplier=NOISE,
            max_grad_norm=CLIP,
            poisson_sampling=False,
            noise_generator=torch.Generator().manual_seed(2),
            grad_sample_mode=mode,
        )
    module, optimiser = made[:2]
    criterion = made[2] if mode == "ghost" else torch.nn.CrossEntropyLoss()

    def step() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimiser.zero_grad()
            criterion(module(x), y).backward()
            optimiser.step()

    return step
