"""Prepared data, which are made on demand and checked against committed manifests, `data/manifest/<kind>/<key>.json`.

A manifest is the output of a stage.  It states the sha256 and size of a file, its rows, features, classes and public
bounds, a hash of all its inputs, and a sha256 of the manifest itself.  Data sets and published weights have the same
bytes on every machine.  The last digits of features, references and weights that are trained here depend on the
processor, so a file that this machine made from the stated inputs is accepted, too.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from hydra.utils import instantiate
from omegaconf import DictConfig

from dplangevin import files as on_disk
from dplangevin.data import DataError, Dataset, save_arrays
from dplangevin.data.archives import opened
from dplangevin.data.fetch import fetch, mirrors
from dplangevin.files import File, describe, key
from dplangevin.pipeline.code import code_hash, targets
from dplangevin.pipeline.environment import described, pinned
from dplangevin.pipeline.plan import SUBSET, plain

FOLDER, RAW, BUNDLED = Path("data/manifest"), Path("data/raw"), Path("data/bundled")
PLACES = {"dataset": Path("data/processed")}
PLACES |= {kind: Path("data", kind) for kind in ("weights", "features", "reference")}
FIX = "restore it from git, or write it anew: python pipelines/data.py"
BOUNDS = ("row_norm_bound", "row_bound", "public")  # public bounds on lengths, in the file's header


def file(cfg: DictConfig, kind: str, name: str) -> File:
    """Return the sha256 of the manifest, and a function that makes the file, here or where it is unpickled."""
    manifest = read(kind, name)
    return File(manifest["file"]["sha256"], partial(ensure, cfg, kind, name, manifest))


def ensure(cfg: DictConfig, kind: str, name: str, manifest: Mapping[str, Any] | None = None) -> Path:
    """Return the file of a manifest, by default of the one that is here; make it if it is missing or another one."""
    manifest, path = manifest or read(kind, name), path_of(kind, name)
    with FileLock(RAW / ".lock", is_singleton=True):  # several processes may share a folder
        if not _is_stated(path, manifest):
            make(cfg, kind, name)
            if recipe_of(cfg, kind, name)[2]:  # last digits depend on the processor
                on_disk.write_checksum(path, inputs=inputs(cfg, kind, name))
            if not _is_stated(path, manifest):
                text = f"{path} is made, and is not what its manifest states, {manifest['file']}"
                raise DataError(f"{text}: {FIX} {kind} {name}")
    return path


def _is_stated(path: Path, manifest: Mapping[str, Any]) -> bool:
    """Return whether a file is what a manifest states, or what this machine made from the inputs that it states."""
    return path.is_file() and (
        describe(path).items() <= manifest["file"].items()
        or (on_disk.sidecar(path) or {}).get("inputs") == manifest["inputs"]
    )


def read(kind: str, name: str) -> dict[str, Any]:
    """Return a manifest."""
    path = FOLDER / kind / f"{name}.json"
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        own = content.pop("sha256")
        if with_sha256(content)["sha256"] != own:
            raise ValueError("it has another sha256 than it states")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is missing or damaged ({error}): {FIX} {kind} {name}") from error
    return content


def with_sha256(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest together with the sha256 of its content."""
    return {**manifest, "sha256": hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()}


def state(cfg: DictConfig, kind: str, name: str) -> bool:
    """Make the file and write its manifest; return False if the manifest is there and no file differs from it."""
    path, made_of = path_of(kind, name), inputs(cfg, kind, name)
    try:
        manifest = read(kind, name)
        if manifest["inputs"] == made_of and (not path.exists() or _is_stated(path, manifest)):
            return False
    except DataError as error:
        print(f"no sound manifest of {kind} {name} ({error.__cause__}): written again", file=sys.stderr)
    make(cfg, kind, name)
    stated = {"file": {"path": path.as_posix(), **describe(path)}, "inputs": made_of}
    made = {"made": described()} if recipe_of(cfg, kind, name)[2] else {}
    _write(kind, name, {**stated, **_contents(path, kind), **made})
    return True


def renew(cfg: DictConfig, kind: str, name: str) -> bool:
    """State in a manifest that the current code makes the same file, to the byte; return whether it changed."""
    manifest, made_of, path = read(kind, name), inputs(cfg, kind, name), path_of(kind, name)
    if path.with_suffix(".json").exists() and _is_stated(path, manifest):  # it may have other last digits
        on_disk.write_checksum(path, inputs=made_of)
    _write(kind, name, {**manifest, "inputs": made_of})
    return bool(manifest["inputs"] != made_of)


def _write(kind: str, name: str, manifest: Mapping[str, Any]) -> None:
    text = json.dumps(with_sha256(manifest), indent=2) + "\n"
    on_disk.write(FOLDER / kind, {f"{name}.json": text.encode()})


def make(cfg: DictConfig, kind: str, name: str) -> None:
    """Make a file, and first all its inputs."""
    makers = {"dataset": _fetched, "weights": _weights, "features": _features, "reference": _reference}
    with pinned():
        makers[kind](cfg, name, path_of(kind, name))


def inputs(cfg: DictConfig, kind: str, name: str) -> str:
    """Return the hash of all inputs of a file."""
    settings, code, files = recipe_of(cfg, kind, name)
    hashed = [code_hash(*code)] if code else []
    return key([kind, name, [*settings, *hashed, *(read(*each)["file"]["sha256"] for each in files)]])


def recipe_of(cfg: DictConfig, kind: str, name: str) -> tuple[list[Any], list[str], list[tuple[str, str]]]:
    """Return what determines a file: settings, names of modules and objects, kind and name of other files.

    An edit of code does not train weights again.
    """
    if kind == "weights" and name in cfg.get("pretrain", {}):
        entry = plain(cfg.pretrain[name])
        return [entry, plain(cfg.backbone[name]), cfg.seed], [], [("dataset", entry["dataset"])]
    if kind in ("dataset", "weights"):
        entry = plain(cfg[kind][name])
        sums = [[file["name"], file["sha256"]] for file in entry["files"]]
        return ([sums, entry["loader"]], targets(entry), []) if "loader" in entry else (sums, [], [])
    if kind == "features":
        entry = {word: value for word, value in plain(cfg.features[name]).items() if word not in SUBSET}
        backbone, sets = plain(cfg.backbone[entry["backbone"]]), (entry["dataset"], entry["public"])
        files = [("weights", entry["backbone"]), *(("dataset", each) for each in sets)]
        return [entry, backbone, cfg.seed], ["dplangevin.backbones.features", *targets(backbone)], files
    spec = {word: value for word, value in plain(cfg.reference).items() if word != "datasets"}
    problem = plain(cfg.problem[spec["problem"]])
    code = ["dplangevin.pipeline.reference", *targets(spec, problem)]
    return [spec, problem, cfg.seed, cfg.repeats], code, [("dataset", name)]


def known(cfg: DictConfig, kind: str) -> list[str]:
    """Return all names of a kind."""
    if kind == "reference":
        return list(cfg.reference.datasets) if "reference" in cfg else []
    groups = ("weights", "pretrain") if kind == "weights" else (kind,)
    return [str(name) for group in groups for name in cfg.get(group, {})]


def path_of(kind: str, name: str) -> Path:
    """Return the place of a file."""
    return PLACES[kind] / f"{name}.npz"


def _fetched(cfg: DictConfig, name: str, target: Path, kind: str = "dataset") -> None:
    """Fetch the files of an entry, which its `loader` reads; without one, the file itself is what is wanted."""
    entry, source = cfg[kind][name], name if kind == "dataset" else kind
    folder = RAW / source if "loader" in entry else target.parent
    near = mirrors(os.environ.get("DATA_MIRROR", ""))
    fetch(source, entry.files, folder, near, entry.get("archive"), entry.get("urls", ()))
    if "loader" in entry:
        content = instantiate(entry.loader, _partial_=True)(folder=folder)
        content.save(target) if kind == "dataset" else save_arrays(target, content)


def _weights(cfg: DictConfig, name: str, target: Path) -> None:
    """Fetch weights that are published; copy ours from git if they are made of these inputs, else train them."""
    if name not in cfg.get("pretrain", {}):
        _fetched(cfg, name, target, "weights")
        return
    made_of, in_git = inputs(cfg, "weights", name), BUNDLED / f"{name}.npz"
    if in_git.exists():
        with opened(in_git, "the weights", "git restore it, or delete it to train them again") as archive:
            arrays = dict(archive)  # compares the checksums
            kept = json.loads(arrays["meta"].tobytes()).get("inputs")
        if kept == made_of:
            on_disk.write(target.parent, {target.name: in_git.read_bytes()})
            return
    from dplangevin.backbones.pretrain import pretrain

    data = ensure(cfg, "dataset", cfg.pretrain[name].dataset)
    code = code_hash(pretrain.__module__, *targets(plain(cfg.pretrain[name]), plain(cfg.backbone[name])))
    pretrain(cfg, name, data, target, made_of, code)


def _features(cfg: DictConfig, name: str, target: Path) -> None:
    from dplangevin import backbones, random
    from dplangevin.backbones.features import Extraction
    from dplangevin.device import pick

    entry = cfg.features[name]
    backbone, digest = backbones.load(cfg.backbone[entry.backbone], ensure(cfg, "weights", entry.backbone))
    images, public = (Dataset.load(ensure(cfg, "dataset", entry[of])) for of in ("dataset", "public"))
    extraction = Extraction(entry.resize, entry.batch, entry.public_images, entry.padding, entry.flip)
    names = {"name": name, "dataset": entry.dataset, "backbone": entry.backbone, "weights_sha256": digest}
    rng = random.generator(cfg.seed, f"features {name}")
    extraction.build(backbone, images, public, names, pick(), rng).save(target)


def _reference(cfg: DictConfig, name: str, target: Path) -> None:
    from dplangevin import random
    from dplangevin.device import pick
    from dplangevin.pipeline.reference import sample_reference, save

    prepared, spec, references = Dataset.load(ensure(cfg, "dataset", name)), cfg.reference, {}
    seeds = prepared.repeats if prepared.repeats > 1 else cfg.repeats
    for scaling in spec.scalings:
        problem = instantiate(cfg.problem[spec.problem])(prepared.scaled(scaling), seeds)
        rng, sampler = random.generator(cfg.seed, f"{name}/reference"), instantiate(spec.sampler)
        problem = problem.to(pick(problem.n * problem.features * sampler.chains))
        references[scaling] = sample_reference(problem, spec.precision, sampler, spec.predictive, seeds, rng)
    save(target, references)


def _contents(path: Path, kind: str) -> dict[str, Any]:
    """Return what a manifest states about the content of a file."""
    with np.load(path, allow_pickle=False) as archive:
        meta = json.loads(archive["meta"].tobytes()) if "meta" in archive else {}
        if kind in ("weights", "reference"):
            training = {"training": meta["training"]} if "training" in meta else {}
            return {"arrays": len({*archive.files} - {"meta"})} | training
        y, m, shape = archive["y_train"], archive["y_test"].shape[-1], archive["x_train"].shape
    rest = list(shape[y.ndim :])
    classes = {"classes": meta.get("classes", len(np.unique(y)))}
    return {
        "rows": {"train": y.shape[-1], "test": m},
        "features": rest[0] if len(rest) == 1 else rest,
        **({"target": meta["target"]} if "target" in meta else classes),
        **({"draws": y.shape[0]} if y.ndim == 2 else {}),  # 1: all repeats share the data
        "bounds": {name: meta[name] for name in BOUNDS if name in meta},
    }
