"""Training of a backbone on the public set; nothing here is private."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from dplangevin import random
from dplangevin.backbones import Backbone, network, set_weights
from dplangevin.backbones.augmentation import shifted
from dplangevin.checks import require, settings
from dplangevin.data import Dataset, save_arrays
from dplangevin.device import pick
from dplangevin.engine.convolution import layout
from dplangevin.files import Checkpoint, key, sha256

AT_ONCE = 500  # test images whose logits are computed together
DIGITS = 5  # digits after the decimal point in training curves


@dataclass(frozen=True)
class Pretraining:
    """SGD with momentum on minibatches without replacement, each epoch in a new order.

    The updates are ``v <- momentum v + g + weight_decay theta`` and ``theta <- theta - eta_t v``, with ``eta_t =
    step_size (1 + cos(pi t/T)) / 2`` for t = 0, ..., T - 1. g is the gradient of the mean cross entropy. An epoch
    leaves out images after its last whole minibatch.

    - `bfloat16`: Convolutions and matrix products are in bfloat16, parameters in float32. False: all is in float32.
    - `held_out`: Number of training images, the last, that are not trained on but replace the test images, for choosing
      among settings.
    """

    epochs: int
    batch: int
    step_size: float
    momentum: float
    weight_decay: float
    label_smoothing: float
    padding: int
    flip: bool
    bfloat16: bool
    held_out: int

    def __post_init__(self) -> None:
        settings(
            self,
            **dict.fromkeys(("epochs", "batch", "step_size"), "positive and finite"),
            **dict.fromkeys(("weight_decay", "padding", "held_out"), "finite and >= 0"),
            **dict.fromkeys(("momentum", "label_smoothing"), "in [0, 1)"),
        )

    def run(
        self,
        backbone: Backbone,
        images: Dataset,
        rng: torch.Generator,
        device: torch.device,
        checkpoint: Checkpoint,
    ) -> tuple[dict[str, np.ndarray], float, dict[str, list[float]]]:
        """Return float16 weights after the last epoch, their test accuracy, and its curve, a number for each epoch.

        In the curve, `loss` and `train` are of the minibatches. The test images do not choose the epoch.

        A run that finds a saved state continues from it. On a CPU with the same number of threads the result then has
        the same bytes.
        """
        classes, n = backbone.linear.out_features, images.n - self.held_out
        require(images.classes == classes, f"{images.classes} classes, but the backbone has {classes}")
        require(self.batch <= n, f"batch = {self.batch} is larger than the data set ({n} images)")
        arrays = images.arrays()
        train = arrays.x_train[:n], arrays.y_train[:n]
        test = (arrays.x_train[n:], arrays.y_train[n:]) if self.held_out else (arrays.x_test, arrays.y_test)
        session = Session(self, backbone, train, test, rng, device)
        session.start(checkpoint.load())
        total = self.epochs * session.per_epoch
        with tqdm(total=total, initial=session.step, unit="step", mininterval=1, disable=None) as bar:
            while session.step < total:
                session.advance(total)
                bar.update()
                checkpoint.save(session.snapshot)
        weights = {name: _half(value) for name, value in backbone.state_dict().items()}
        set_weights(backbone, weights)
        return weights, accuracy(backbone, *test, device), session.curve


def _half(value: Tensor) -> np.ndarray:
    array: np.ndarray = (value.half() if value.is_floating_point() else value).cpu().contiguous().numpy()
    return array


class Session:
    """A network in training, with everything on which its next step depends; images are (n, C, H, W) uint8."""

    def __init__(
        self,
        plan: Pretraining,
        backbone: Backbone,
        train: tuple[np.ndarray, np.ndarray],
        test: tuple[np.ndarray, np.ndarray],
        rng: torch.Generator,
        device: torch.device,
    ) -> None:
        self.plan, self.test, self.rng, self.device = plan, test, rng, device
        self.x, self.y = (torch.from_numpy(a).to(device) for a in train)
        self.per_epoch = len(self.x) // plan.batch
        self.layout = layout(device)
        self.backbone: Backbone = backbone.to(device, memory_format=self.layout)  # type: ignore[call-overload]
        self.backbone.train()
        self.optimiser = torch.optim.SGD(
            backbone.parameters(), plan.step_size, momentum=plan.momentum, weight_decay=plan.weight_decay
        )
        self.step, self.order = 0, torch.empty(0, dtype=torch.int64)
        self.curve: dict[str, list[float]] = {"loss": [], "train": [], "test": []}
        self.loss = torch.zeros((), device=device)  # loss, right: sums over the epoch's steps so far
        self.right = torch.zeros((), dtype=torch.int64, device=device)

    def start(self, saved: dict[str, Any] | None) -> None:
        if saved is None:
            initialise(self.backbone, self.rng)
            return
        self.step, self.order, self.curve = saved["step"], saved["order"], saved["curve"]
        self.loss, self.right = (saved[name].to(self.device) for name in ("loss", "right"))
        self.backbone.load_state_dict(saved["backbone"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.rng.set_state(saved["rng"])

    def snapshot(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "order": self.order,
            "curve": self.curve,
            "loss": self.loss.cpu(),
            "right": self.right.cpu(),
            "backbone": self.backbone.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rng": self.rng.get_state(),
        }

    def advance(self, total: int) -> None:
        """Do one step of `total`; raise ValueError at the end of an epoch whose loss is not finite."""
        at = self.step % self.per_epoch
        if at == 0:
            self.order = torch.randperm(len(self.x), generator=self.rng)
        rows = self.order[at * self.plan.batch : (at + 1) * self.plan.batch].to(self.device)
        pixels = shifted(self.x[rows], self.plan.padding, self.plan.flip, self.rng)
        inputs = self.backbone.inputs(pixels).contiguous(memory_format=self.layout)
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.step_size * (1 + math.cos(math.pi * self.step / total)) / 2
        self.optimiser.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.plan.bfloat16):
            logits = self.backbone(inputs).float()
        loss = F.cross_entropy(logits, self.y[rows], label_smoothing=self.plan.label_smoothing)
        loss.backward()
        self.optimiser.step()
        self.loss += loss.detach()
        self.right += (logits.argmax(1) == self.y[rows]).sum()
        self.step += 1
        if at + 1 == self.per_epoch:
            self.measure()

    def measure(self) -> None:
        mean, right = float(self.loss) / self.per_epoch, int(self.right) / (self.per_epoch * self.plan.batch)
        epoch = self.step // self.per_epoch
        require(math.isfinite(mean), f"epoch {epoch}: the loss is {mean}; lower step_size")
        found = {"loss": mean, "train": right, "test": accuracy(self.backbone, *self.test, self.device)}
        for name, value in found.items():
            self.curve[name].append(round(value, DIGITS))
        self.backbone.train()
        self.loss.zero_()
        self.right.zero_()


@torch.no_grad()
def initialise(module: nn.Module, rng: torch.Generator) -> None:
    """Set random weights.

    - Convolutions without a bias: N(0, 2/fan_out), with fan_out the number of outputs that one pixel reaches
      (He et al. 2015).
    - Other convolutions and linear layers: uniform on ``+-1/sqrt(inputs)``, biases too.
    - Batch normalisations: the identity, with statistics 0 and 1.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d) and layer.bias is None:
            fan = layer.out_channels * layer.weight[0, 0].numel()
            drawn = torch.randn(layer.weight.shape, generator=rng) * math.sqrt(2 / fan)
            layer.weight.copy_(drawn)
        elif isinstance(layer, nn.Linear | nn.Conv2d):
            for parameter in layer.parameters(recurse=False):  # weight, bias
                drawn = 2 * torch.rand(parameter.shape, generator=rng) - 1
                parameter.copy_(drawn / math.sqrt(layer.weight[0].numel()))
        elif isinstance(layer, nn.BatchNorm2d):
            layer.reset_parameters()
        elif list(layer.parameters(recurse=False)):
            raise ValueError(f"layer {name} ({type(layer).__name__}): no law for its weights is defined here")


@torch.inference_mode()
def accuracy(backbone: Backbone, x: np.ndarray, y: np.ndarray, device: torch.device) -> float:
    """Return the share of images (m, C, H, W) whose largest logit is that of the label; it sets evaluation mode."""
    network = backbone.to(device).eval()
    right = 0
    for start in range(0, len(x), AT_ONCE):
        pixels, labels = (torch.from_numpy(a[start : start + AT_ONCE]).to(device) for a in (x, y))
        answers: Tensor = network(network.inputs(pixels)).argmax(1)
        right += int((answers == labels).sum())
    return right / len(x)


def pretrain(cfg: DictConfig, name: str, data: Path, target: Path, inputs: str, code: str = "") -> None:
    """Train the backbone of an entry of conf/pretrain/ on the prepared public set, and write its weights to `target`.

    `inputs` is the hash of everything from which the weights are made. A checkpoint of other `code` is not continued.
    """
    entry, backbone, device = cfg.pretrain[name], cfg.backbone[name], pick()
    settings = {"pretrain": OmegaConf.to_container(entry), "backbone": OmegaConf.to_container(backbone)}
    images = Dataset.load(data)
    digest = key([code, sha256(data), cfg.seed, device.type, settings])
    checkpoint = Checkpoint(Path("data/units/pretrain") / f"{name}.pt", digest)
    training: Pretraining = instantiate(entry.training)
    rng = random.generator(cfg.seed, f"pretrain {name}")
    arrays, right, curve = training.run(network(backbone), images, rng, device, checkpoint)
    tested = "held-out training images" if training.held_out else "test images"
    meta = {
        "inputs": inputs,
        "backbone": name,
        "seed": cfg.seed,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "settings": settings,
        "training": {
            "dataset": entry.dataset,
            "images": images.n - training.held_out,
            "epochs": training.epochs,
            "tested": tested,
            "accuracy": right,
            "curve": curve,
        },
    }
    header = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)
    save_arrays(target, {**arrays, "meta": header})
    checkpoint.remove()
    print(f"{name}: {right:.2%} of the {tested} of {entry.dataset} right after {training.epochs} epochs")
