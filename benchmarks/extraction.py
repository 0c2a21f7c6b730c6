"""Images a second of the features stage, against PyTorch's plain loop over the same network in evaluation mode.

Random weights and random images of CIFAR's size: neither decides the time.
"""

import numpy as np
import torch
from measure import Options, Row, medians, verdict

from dplangevin import random
from dplangevin.backbones import Backbone, network
from dplangevin.backbones.features import Extraction
from dplangevin.backbones.pretrain import initialise
from dplangevin.config import compose

IMAGES, FULL = 2_000, 20_000
CIFAR, MINUTES = 60_000, 5
PLAIN_BATCH = 250


def rows(options: Options) -> list[Row]:
    cfg, rng = compose(), random.generator(0, "benchmark of features")
    entry = cfg.features.cifar10_resnet20
    backbone = network(cfg.backbone[entry.backbone])
    initialise(backbone, rng)
    backbone.eval()
    count = FULL if options.full else IMAGES
    images = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=rng).numpy()
    extraction = Extraction(entry.resize, entry.batch, entry.public_images)
    device = torch.device("cpu")
    ours, plain = medians(
        options.runs,
        lambda: extraction.features(backbone, images, device),
        lambda: evaluated(backbone, images),
    )
    minutes = CIFAR * ours / count / 60
    return [
        Row(
            "features of images of 32x32, ResNet-20",
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
    ]


def evaluated(backbone: Backbone, images: np.ndarray) -> torch.Tensor:
    """What one would write without thinking of speed."""
    with torch.inference_mode():
        parts = torch.from_numpy(images).split(PLAIN_BATCH)
        return torch.cat([backbone.features(backbone.inputs(part)) for part in parts])
