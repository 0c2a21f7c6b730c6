"""Sample the posterior of one data set that samplers are compared with: python pipelines/reference.py DATASET."""

import sys
from pathlib import Path

from hydra.utils import instantiate

from dplangevin import noise
from dplangevin.config import load
from dplangevin.data import Dataset
from dplangevin.reference import sample_reference, save


def main(dataset: str) -> None:
    cfg = load()
    spec = cfg.reference
    sampler = instantiate(spec.sampler)
    prepared = Dataset.load(f"data/processed/{dataset}.npz")
    found = {}
    for scaling in spec.scalings:
        data = prepared.scaled(scaling)
        problem = instantiate(cfg.model[spec.model])(data, cfg.repeats)
        rng = noise.generator(cfg.seed, f"{dataset}/reference")
        found[scaling] = sample_reference(problem, data, spec.precision, sampler, spec.predictive, rng)
    save(Path(f"data/reference/{dataset}.npz"), found)


if __name__ == "__main__":
    main(*sys.argv[1:])
