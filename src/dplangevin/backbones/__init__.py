"""Networks trained on public images; the input of their last layer gives features of other images."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from hydra.utils import instantiate
from torch import Tensor, nn

from dplangevin.backbones.inputs import Inputs
from dplangevin.data import DataError
from dplangevin.data.archives import opened
from dplangevin.files import sha256

Kind = TypeVar("Kind", bound=nn.Module)


class Backbone(nn.Module):
    """A network ``logits = linear(features(x))`` for images x, (B, 3, H, W) float32, as `inputs` gives them.

    A subclass defines `features`, (B, p), and `linear`. In every module, a batch normalisation is registered
    right after its convolution: `fused` relies on this order. `layer` says what the features are, in words.
    """

    inputs: Inputs
    linear: nn.Linear
    layer: str

    def features(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.features(x))
        return logits


def empty(make: Callable[[], Kind]) -> Kind:
    """Return a module whose parameters and statistics are 0; no number is drawn from a global generator."""
    with torch.device("meta"):
        module = make()
    module = module.to_empty(device="cpu")
    for value in module.state_dict().values():
        value.zero_()
    return module


def load(cfg: Mapping[str, Any], path: Path) -> tuple[Backbone, str]:
    """Return a network of conf/backbone in evaluation mode, and the sha256 of its weights in the file `path`."""
    module = network(cfg)
    with opened(path, "the weights", f"Make them again: dvc repro -f {cfg['made_by']}") as archive:
        set_weights(module, {name: archive[name] for name in archive.files if name != "meta"})
    return module.eval(), sha256(path)


def network(cfg: Mapping[str, Any]) -> Backbone:
    """Return the network of an entry of conf/backbone/ without its weights."""
    made: Backbone = instantiate({k: v for k, v in cfg.items() if k != "made_by"})
    return made


def set_weights(module: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Set every parameter and running statistic from the array of the same name.

    A single number may also come as an array of one element, because `data.save_arrays` writes it so.
    """
    own = module.state_dict()
    arrays = {k: v[0] if v.shape == (1,) and k in own and not own[k].ndim else v for k, v in arrays.items()}
    if wrong := [name for name, value in arrays.items() if not np.isfinite(value).all()]:
        raise DataError(f"{wrong[0]} has values that are not finite")
    # Copied, because torch.from_numpy warns about read-only arrays.
    given = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
    try:
        module.load_state_dict(given)
    except RuntimeError as error:  # a name or a shape
        raise DataError(f"the weights do not fit: {' '.join(str(error).split())}") from error
