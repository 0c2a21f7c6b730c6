"""Training of a backbone on the public set.  Nothing here is private, and nothing needs to be."""

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
from dplangevin.backbones import Backbone, network
from dplangevin.cache import Checkpoint, code_hash, key, sha256, targets
from dplangevin.checks import not_negative, positive, require
from dplangevin.data import Dataset, save_arrays
from dplangevin.device import pick

AT_ONCE = 500  # test images whose logits are taken together


@dataclass(frozen=True)
class Pretraining:
    """SGD with momentum on minibatches without replacement, each epoch in a new order, for `epochs` over the data.

    ``v <- momentum v + g + weight_decay theta``, ``theta <- theta - eta_t v``, ``eta_t = step_size (1 + cos(pi t/T)) /
    2``, t = 0, ..., T - 1; g: gradient of the mean cross entropy with label_smoothing in [0, 1).  What an epoch leaves
    over after whole minibatches is left out.  padding, flip: see `shifted`.  On a GPU products are in float16,
    with scaled losses, parameters in float32; elsewhere all is float32.
    """

    epochs: int
    batch: int
    step_size: float
    momentum: float
    weight_decay: float
    label_smoothing: float
    padding: int
    flip: bool

    def __post_init__(self) -> None:
        positive(epochs=self.epochs, batch=self.batch, step_size=self.step_size)
        not_negative(momentum=self.momentum, weight_decay=self.weight_decay, padding=self.padding)
        for name in ("momentum", "label_smoothing"):
            value = getattr(self, name)
            require(0 <= value < 1, f"{name} must be in [0, 1), not {value}")

    def run(
        self,
        backbone: Backbone,
        images: Dataset,
        rng: torch.Generator,
        device: torch.device,
        checkpoint: Checkpoint,
    ) -> tuple[dict[str, np.ndarray], float]:
        """Parameters and statistics by name, and the accuracy on the test images, looked at once, at the end.

        The state is kept on disk now and then; a run that finds one goes on from it, on a CPU to the same bytes.
        ValueError where classes or sizes differ, and when training diverges.
        """
        classes, n = backbone.linear.out_features, images.n
        require(images.classes == classes, f"{images.classes} classes, but the backbone has {classes}")
        require(self.batch <= n, f"batch = {self.batch} is larger than the data set ({n} images)")
        session = Session(self, backbone, images, rng, device)
        session.start(checkpoint.load())
        total = self.epochs * session.per_epoch
        with tqdm(total=total, initial=session.step, unit="step", mininterval=1, disable=None) as bar:
            while session.step < total:
                session.advance(total)
                bar.set_postfix_str(session.shown)
                bar.update()
                checkpoint.save(session.snapshot)
        arrays = {name: value.cpu().contiguous().numpy() for name, value in backbone.state_dict().items()}
        return arrays, accuracy(backbone, images.arrays().x_test, images.arrays().y_test, device)


class Session:
    """A network in training, and all that its next step depends on."""

    def __init__(
        self,
        plan: Pretraining,
        backbone: Backbone,
        images: Dataset,
        rng: torch.Generator,
        device: torch.device,
    ) -> None:
        self.plan, self.rng, self.device = plan, rng, device
        arrays = images.arrays()
        self.x, self.y = (torch.from_numpy(a).to(device) for a in (arrays.x_train, arrays.y_train))
        self.per_epoch = len(self.x) // plan.batch
        self.backbone: Backbone = backbone.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.backbone.train()
        self.optimiser = torch.optim.SGD(
            backbone.parameters(), plan.step_size, momentum=plan.momentum, weight_decay=plan.weight_decay
        )
        self.mixed = device.type == "cuda"
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.mixed)
        self.step, self.order, self.shown = 0, torch.empty(0, dtype=torch.int64), ""
        self.loss = torch.zeros((), device=device)  # sum over the steps of the epoch so far

    def start(self, saved: dict[str, Any] | None) -> None:
        """Begin with random weights, or go on from a snapshot."""
        if saved is None:
            initialise(self.backbone, self.rng)
            return
        self.step, self.order = saved["step"], saved["order"]
        self.loss = saved["loss"].to(self.device)
        self.backbone.load_state_dict(saved["backbone"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.scaler.load_state_dict(saved["scaler"])
        self.rng.set_state(saved["rng"])

    def snapshot(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "order": self.order,
            "loss": self.loss.cpu(),
            "backbone": self.backbone.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
            "rng": self.rng.get_state(),
        }

    def advance(self, total: int) -> None:
        """One step of `total`; ValueError at the end of an epoch whose loss is not finite."""
        at = self.step % self.per_epoch
        if at == 0:
            self.order = torch.randperm(len(self.x), generator=self.rng)
        rows = self.order[at * self.plan.batch : (at + 1) * self.plan.batch].to(self.device)
        pixels = shifted(self.x[rows], self.plan.padding, self.plan.flip, self.rng)
        inputs = self.backbone.inputs(pixels).contiguous(memory_format=torch.channels_last)
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.step_size * (1 + math.cos(math.pi * self.step / total)) / 2
        self.optimiser.zero_grad()
        with torch.autocast(self.device.type, torch.float16, enabled=self.mixed):
            loss = F.cross_entropy(
                self.backbone(inputs), self.y[rows], label_smoothing=self.plan.label_smoothing
            )
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.loss += loss.detach()
        self.step += 1
        if at + 1 == self.per_epoch:
            mean = float(self.loss) / self.per_epoch
            epoch = self.step // self.per_epoch
            require(math.isfinite(mean), f"epoch {epoch}: the loss is {mean}; lower step_size")
            self.shown = f"epoch {epoch}, loss {mean:.4f}"
            self.loss.zero_()


def shifted(images: Tensor, padding: int, flip: bool, rng: torch.Generator) -> Tensor:
    """Each image, framed by `padding` pixels of 0, cut to its size at a uniform place; with `flip`, half are mirrored.

    images: (B, C, H, W), any type and device.  rng: on the CPU; the draws do not depend on the device.
    """
    count, _, height, width = images.shape
    places = torch.randint(2 * padding + 1, (2, count, 1), generator=rng)
    mirrored = torch.rand(count, 1, generator=rng) < (0.5 if flip else 0.0)
    rows = places[0] + torch.arange(height)  # (B, H)
    columns = torch.arange(width).expand(count, width)
    columns = places[1] + torch.where(mirrored, columns.flip(1), columns)  # (B, W)
    framed = F.pad(images, (padding,) * 4)
    b, i, j = (
        part.to(images.device)
        for part in (torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :])
    )
    return framed.permute(0, 2, 3, 1)[b, i, j].permute(0, 3, 1, 2)


@torch.no_grad()
def initialise(module: nn.Module, rng: torch.Generator) -> None:
    """Random weights.

    Convolutions: N(0, 2/(outputs a pixel has)) (He et al. 2015); linear layers: uniform on ``+-1/sqrt(inputs)``, biases
    too; batch normalisation: the identity, with statistics 0 and 1.  ValueError for parameters of other layers.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d) and layer.bias is None:
            fan = layer.out_channels * layer.weight[0, 0].numel()
            drawn = torch.randn(layer.weight.shape, generator=rng) * math.sqrt(2 / fan)
            layer.weight.copy_(drawn)
        elif isinstance(layer, nn.Linear):
            for parameter in (layer.weight, layer.bias):
                drawn = 2 * torch.rand(parameter.shape, generator=rng) - 1
                parameter.copy_(drawn / math.sqrt(layer.in_features))
        elif isinstance(layer, nn.BatchNorm2d):
            layer.reset_parameters()
        elif list(layer.parameters(recurse=False)):
            raise ValueError(f"layer {name} ({type(layer).__name__}): no law for its weights is defined here")


@torch.inference_mode()
def accuracy(backbone: Backbone, x: np.ndarray, y: np.ndarray, device: torch.device) -> float:
    """Share of images ``(m, C, H, W)`` uint8 whose largest logit is the label's; leaves the backbone in eval mode."""
    network = backbone.to(device).eval()
    right = 0
    for start in range(0, len(x), AT_ONCE):
        pixels, labels = (torch.from_numpy(a[start : start + AT_ONCE]).to(device) for a in (x, y))
        answers: Tensor = network(network.inputs(pixels)).argmax(1)
        right += int((answers == labels).sum())
    return right / len(x)


def pretrain(cfg: DictConfig, name: str, data: Path, target: Path) -> None:
    """Train the backbone of an entry of conf/pretrain/ on the prepared public set in `data`, and write its weights."""
    entry, backbone, device = cfg.pretrain[name], cfg.backbone[name], pick()
    settings = {"pretrain": OmegaConf.to_container(entry), "backbone": OmegaConf.to_container(backbone)}
    images = Dataset.load(data)
    code = code_hash(__name__, *targets(settings))
    digest = key([code, sha256(data), cfg.seed, device.type, settings])
    checkpoint = Checkpoint(Path("data/units/pretrain") / f"{name}.pt", digest)
    training: Pretraining = instantiate(entry.training)
    rng = random.generator(cfg.seed, f"pretrain {name}")
    arrays, right = training.run(network(backbone), images, rng, device, checkpoint)
    meta = {
        "backbone": name,
        "dataset": entry.dataset,
        "images": images.n,
        "epochs": training.epochs,
        "seed": cfg.seed,
        "accuracy": right,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "settings": settings,
    }
    header = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)
    save_arrays(target, {**arrays, "meta": header})
    checkpoint.remove()
    print(f"{name}: {right:.2%} of the test set of {entry.dataset} right after {training.epochs} epochs")
