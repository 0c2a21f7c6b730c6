"""Stage features@<key>: images to features of a network trained on public images, to data/features/<key>.npz."""

import argparse
import sys
from collections.abc import Sequence

from dplangevin import backbones
from dplangevin.config import load
from dplangevin.data import DataError
from dplangevin.device import pick
from dplangevin.features import Extraction
from dplangevin.images import ImageSet


def main(argv: Sequence[str] | None = None) -> int:
    cfg = load()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("key", choices=list(cfg.features), help="an entry of conf/features/")
    key = parser.parse_args(argv).key
    entry = cfg.features[key]
    try:
        backbone, digest = backbones.load(cfg.backbone[entry.backbone])
        images, public = (
            ImageSet.load(f"data/processed/{name}.npz") for name in (entry.dataset, entry.public)
        )
        extraction = Extraction(entry.resize, entry.batch, entry.public_images)
        names = {"name": key, "dataset": entry.dataset, "backbone": entry.backbone, "weights_sha256": digest}
        extraction.build(backbone, images, public, names, pick()).save(f"data/features/{key}.npz")
    except (DataError, ValueError) as error:
        print(f"features of {key}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
