"""Stage pretrain@<backbone>: trains a backbone on the public set, to data/weights/<backbone>.npz."""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from dplangevin import noise
from dplangevin.backbones import network
from dplangevin.backbones.pretrain import Pretraining
from dplangevin.checkpoint import Checkpoint
from dplangevin.config import load
from dplangevin.data import DataError, save_arrays, sha256
from dplangevin.device import pick
from dplangevin.images import ImageSet
from dplangevin.units import code_hash


def main(argv: Sequence[str] | None = None) -> int:
    cfg = load()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("backbone", choices=list(cfg.pretrain), help="an entry of conf/pretrain/")
    key = parser.parse_args(argv).backbone
    entry, backbone, device = cfg.pretrain[key], cfg.backbone[key], pick()
    data = Path(f"data/processed/{entry.dataset}.npz")
    settings = {"pretrain": OmegaConf.to_container(entry), "backbone": OmegaConf.to_container(backbone)}
    try:
        images = ImageSet.load(data)
        inputs = {
            "code": code_hash(),
            "data": sha256(data),
            "seed": cfg.seed,
            "device": device.type,
            **settings,
        }
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]
        checkpoint = Checkpoint(Path("data/units/pretrain") / f"{key}.pt", digest)
        training: Pretraining = instantiate(entry.training)
        rng = noise.generator(cfg.seed, f"pretrain {key}")
        arrays, accuracy = training.run(network(backbone), images, rng, device, checkpoint)
    except (DataError, ValueError) as error:
        print(f"pretraining {key}: {error}", file=sys.stderr)
        return 1
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    meta = {
        "backbone": key,
        "dataset": entry.dataset,
        "images": len(images.x_train),
        "epochs": training.epochs,
        "seed": cfg.seed,
        "accuracy": accuracy,
        "device": name,
        "settings": settings,
    }
    header = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)
    save_arrays(backbone.weights, {**arrays, "meta": header})
    checkpoint.remove()
    print(f"{key}: {accuracy:.2%} of the test set of {entry.dataset} right after {training.epochs} epochs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
