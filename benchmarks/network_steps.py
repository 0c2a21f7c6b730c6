"""The sides of networks.py: one training step of a network, ours, PyTorch's without privacy, Opacus's, and JAX's."""

import copy
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from dplangevin.engine import convolution
from dplangevin.engine.clipped import clipped_sum
from dplangevin.engine.convolution import Conv2d
from dplangevin.engine.layers import Parameters, PerExampleGradients
from dplangevin.problems.architectures import Network

CONF = Path(__file__).resolve().parents[1] / "conf/problem"
MODES = ("hooks", "functorch", "ew", "ghost")
JAX = ("jax_privacy", "optax")
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


def private(name: str, seeds: int = 1, batch: int = BATCH, dtype: torch.dtype = torch.float32) -> Step:
    network, theta, x, y = problem(name, seeds, batch)
    theta, x = theta.to(dtype), x.to(dtype)
    mask, rng = torch.ones(seeds, batch, dtype=torch.bool), torch.Generator().manual_seed(2)

    def step() -> None:
        total = clipped_sum(network, theta, x, y, mask, CLIP).gradient.float()
        total.add_(torch.randn(total.shape, generator=rng), alpha=NOISE * CLIP)
        theta.add_(total, alpha=-STEP / batch)

    return step


def other_ways(name: str) -> dict[str, Callable[[], Step]]:
    """Our step with gradients of single examples computed again for their sum, not kept (as in Bu et al. 2022), and
    with the columns of all examples written before any product, norms after all of them."""
    return {
        "computed again": partial(patched, name, "per_example_gradients", _computed_again),
        "written whole": partial(patched, name, "_by_blocks", _written_whole),
    }


def patched(name: str, method: str, other: Callable[..., Any]) -> Step:
    step = private(name)

    def changed() -> None:
        with mock.patch.object(Conv2d, method, other):
            step()

    return changed


def _computed_again(
    self: Conv2d, parameters: Parameters, x: Tensor, g: Tensor, norms: bool
) -> PerExampleGradients:
    found = _per_example_gradients(self, parameters, x, g, norms)
    return _per_example_gradients(self, parameters, x, g, False)._replace(squares=found.squares)


def _written_whole(self: Conv2d, *given: Any) -> tuple[Tensor, Tensor]:
    with mock.patch.object(convolution, "CACHED", sys.maxsize):
        return _by_blocks(self, *given)


_per_example_gradients, _by_blocks = Conv2d.per_example_gradients, Conv2d._by_blocks


def rounding(name: str) -> float:
    """How far a sum of clipped gradients in bfloat16 is from that in float32, of its norm."""
    network, theta, x, y = problem(name)
    mask = torch.ones(1, BATCH, dtype=torch.bool)
    exact, found = (
        clipped_sum(network, theta.to(dtype), x.to(dtype), y, mask, CLIP).gradient.float()
        for dtype in (torch.float32, torch.bfloat16)
    )
    return float((found - exact).norm() / exact.norm())


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


def jax_sides(name: str) -> dict[str, Callable[[], Step]]:
    """JAX, compiled: without privacy, with clipping by jax_privacy, and with optax's aggregation of all gradients."""
    found: dict[str, Callable[[], Step]] = {who: partial(jax_step, name, who) for who in ("JAX", *JAX)}
    return found


def jax_step(name: str, who: str) -> Step:
    """One step on the network of conf/problem/, of random weights."""
    import jax
    import optax
    from jax import numpy as jnp
    from jax_privacy import clipping

    spec = OmegaConf.to_container(OmegaConf.load(CONF / f"{name}.yaml").network)
    network, _, x, y = problem(name)
    images, labels = jnp.asarray(x[0].numpy()), jnp.asarray(y[0].numpy())
    apply, weights = jax_network(spec["layers"], images[:1])  # type: ignore[index, call-overload]

    def loss(weights: Any, image: Any, label: Any) -> Any:
        logits = apply(weights, image[None])[0]
        return optax.softmax_cross_entropy_with_integer_labels(logits, label)

    def mean_loss(weights: Any, images: Any, labels: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(apply(weights, images), labels).mean()

    clipped = clipping.clipped_grad(loss, l2_clip_norm=CLIP, batch_argnums=(1, 2), keep_batch_dim=False)
    aggregate = optax.contrib.differentially_private_aggregate(CLIP, NOISE, jax.random.key(0))
    kept = aggregate.init(weights)

    def noisy(total: Any, key: Any) -> Any:
        leaves, tree = jax.tree.flatten(total)
        keys = jax.random.split(key, len(leaves))
        drawn = [g + NOISE * CLIP * jax.random.normal(k, g.shape) for g, k in zip(leaves, keys, strict=True)]
        return jax.tree.unflatten(tree, drawn)

    @jax.jit
    def step(weights: Any, kept: Any, key: Any) -> Any:
        if who == "JAX":
            moved = jax.grad(mean_loss)(weights, images, labels)
        elif who == "jax_privacy":
            moved = jax.tree.map(lambda g: g / BATCH, noisy(clipped(weights, images, labels), key))
        else:
            each = jax.vmap(jax.grad(loss), (None, 0, 0))(weights, images, labels)
            moved, kept = aggregate.update(each, kept, weights)
        return jax.tree.map(lambda w, g: w - STEP * g, weights, moved), kept

    key = jax.random.key(1)
    assert network.d == sum(leaf.size for leaf in jax.tree.leaves(weights))
    return lambda: jax.block_until_ready(step(weights, kept, key))


def jax_network(layers: Any, example: Any) -> tuple[Callable[..., Any], Any]:
    """Logits of the layers of conf/problem/ as a function of weights and images ``(B, C, H, W)``, and weights."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def apply(weights: Any, x: Any, draw: bool = False) -> Any:
        rest, made = list(weights), []
        for place, layer in enumerate(layers):
            shape: tuple[int, ...] = ()
            if "conv" in layer:
                shape = layer["conv"], x.shape[1], layer["kernel"], layer["kernel"]
            elif "linear" in layer:
                x = x.reshape(len(x), -1)
                shape = layer["linear"], x.shape[1]
            if shape:
                if draw:
                    scale = 1 / jnp.sqrt(float(np.prod(shape[1:])))
                    rest.append(
                        (scale * jax.random.normal(jax.random.key(place), shape), jnp.zeros(shape[0]))
                    )
                weight, bias = rest.pop(0)
                made.append((weight, bias))
            if "conv" in layer:
                stride, padding = layer.get("stride", 1), layer.get("padding", 0)
                x = lax.conv_general_dilated(x, weight, (stride,) * 2, [(padding, padding)] * 2)
                x = x + bias[:, None, None]
            elif "linear" in layer:
                x = x @ weight.T + bias
            elif "activation" in layer:
                x = {"tanh": jnp.tanh, "relu": jax.nn.relu}[layer["activation"]](x)
            else:
                size = layer["max_pool"]
                stride = layer.get("stride", size)
                window, strides = (1, 1, size, size), (1, 1, stride, stride)
                x = lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "VALID")
        return made if draw else x

    return apply, apply([], example, draw=True)
