"""Images a second of the features stage, against PyTorch's plain loop over the same networks in evaluation mode.

Random weights and random images of CIFAR's size: neither decides the time.
"""

import numpy as np
import torch
from measure import Options, Row, medians, verdict
from omegaconf import DictConfig

from dplangevin import random
from dplangevin.backbones import Backbone, network
from dplangevin.backbones.features import Extraction
from dplangevin.backbones.pretrain import initialise
from dplangevin.pipeline.config import compose

IMAGES, FULL = 2_000, 20_000
CIFAR, MINUTES = 60_000, 2
NETWORKS = {
    "resnet20": "ResNet-20",
    "resnet18": "ResNet-18 of ryffel2022",
    "alexnet": "AlexNet of ryffel2022",
}
PLAIN_BATCH = 250


def rows(options: Options) -> list[Row]:
    cfg = compose()
    return [of_network(options, cfg, network, title) for network, title in NETWORKS.items()]


def of_network(options: Options, cfg: DictConfig, name: str, title: str) -> Row:
    rng, entry = random.generator(0, "benchmark of features"), cfg.features[f"cifar10_{name}"]
    backbone = network(cfg.backbone[entry.backbone])
    initialise(backbone, rng)
    backbone.eval()
    count = FULL if options.full else IMAGES
    images = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=rng).numpy()
    extraction = Extraction(entry.resize, entry.batch, entry.public_images, entry.padding, entry.flip)
    device = torch.device("cpu")
    ours, plain = medians(
        options.runs,
        lambda: extraction.features(backbone, images, device),
        lambda: evaluated(backbone, images),
    )
    minutes = CIFAR * ours / count / 60
    return Row(
        f"features of images of 32x32, {title}",
        f"{count / ours:.0f} images/s",
        f"PyTorch {count / plain:.0f} images/s",
        f"{plain / ours:.1f} times faster; {CIFAR} images in {minutes:.1f} minutes",
        f"< {MINUTES} minutes",
        verdict(minutes < MINUTES),
        str(options.threads),
        f"{count} images, median of {options.runs} runs in turns; "
        f"ours: fused, channels last, {extraction.batch} at once; PyTorch: module.eval(), "
        f"inference_mode, {PLAIN_BATCH} at once",
    )


def evaluated(backbone: Backbone, images: np.ndarray) -> torch.Tensor:
    """What one would write without thinking of speed."""
    with torch.inference_mode():
        parts = torch.from_numpy(images).split(PLAIN_BATCH)
        return torch.cat([backbone.features(backbone.inputs(part)) for part in parts])
