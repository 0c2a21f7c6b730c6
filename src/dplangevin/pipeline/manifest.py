"""Prepared data, which are made on demand and checked against committed manifests.

A manifest `data/manifest/<kind>/<key>.json` is the output of a stage and lies in git.  It states the sha256 and size
of a file, its rows, features, classes and public bounds, a hash of all its inputs, and a sha256 of the manifest
itself.  No stage lists the file itself; code that needs it calls `ensure`.  If DVC copied the checkout for a queued
experiment, the data of the original checkout are used.

Data sets and published weights have the same bytes on every machine.  The last digits of features, references and
weights that are trained here depend on the processor.  So a file that this machine made from the stated inputs is
accepted, too.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock
from hydra.utils import instantiate
from omegaconf import DictConfig

from dplangevin import files as on_disk
from dplangevin.data import DataError, Dataset, save_arrays, stage
from dplangevin.data.archives import opened
from dplangevin.data.fetch import fetch, mirrors
from dplangevin.files import File, describe, key
from dplangevin.pipeline.code import code_hash, targets
from dplangevin.pipeline.environment import described, pinned
from dplangevin.pipeline.plan import SUBSET, plain

FOLDER = Path("data/manifest")
RAW = Path("data/raw")
BUNDLED = Path("data/bundled")  # in git
PLACES = {
    "dataset": Path("data/processed"),
    "weights": Path("data/weights"),
    "features": Path("data/features"),
    "reference": Path("data/reference"),
}
BOUNDS = ("row_norm_bound", "row_bound", "public")  # public bounds on lengths, in the file's header


def ensure(cfg: DictConfig, kind: str, name: str, manifest: Mapping[str, Any] | None = None) -> Path:
    """Return the file of a manifest, by default of the one that is here; make it if it is missing or another one."""
    manifest, own = manifest or read(cfg, kind, name), path_of(kind, name)
    if path := _found(own, manifest):
        return path
    make(cfg, kind, name)
    if _is_stated(own, manifest):
        return own
    if not same_everywhere(cfg, kind, name) and manifest["inputs"] == (made_of := inputs(cfg, kind, name)):
        print(f"{own}: made on this machine, other last digits than those of the manifest", file=sys.stderr)
        on_disk.write_checksum(own, inputs=made_of)
        return own
    stated, made = (f"sha256 {e['sha256']} ({e['size']} bytes)" for e in (manifest["file"], describe(own)))
    raise DataError(
        f"{own}: {manifest_path(kind, name)} states {stated}, made {made}. "
        f"State it anew: dvc repro -f {stage_of(cfg, kind, name)}"
    )


def _found(own: Path, manifest: Mapping[str, Any]) -> Path | None:
    """Return the file of a manifest, here or in the checkout that this is a copy of."""
    for path in (own, *(home / own for home in origin())):
        if _is_stated(path, manifest):
            return path
    if own.exists():
        print(f"{own} is not what its manifest states: made again", file=sys.stderr)
    return None


def _is_stated(path: Path, manifest: Mapping[str, Any]) -> bool:
    """Return whether a file is what a manifest states, or what this machine made from the inputs that it states."""
    if not path.is_file():
        return False
    same = describe(path).items() <= manifest["file"].items()
    return same or (on_disk.sidecar(path) or {}).get("inputs") == manifest["inputs"]


def file(cfg: DictConfig, kind: str, name: str) -> File:
    """Return the sha256 of the manifest, and a function that makes the file, here or where it is unpickled."""
    manifest = read(cfg, kind, name)
    return File(manifest["file"]["sha256"], partial(_prepared, cfg, kind, name, manifest))


def _prepared(*given: Any) -> Path:
    RAW.mkdir(parents=True, exist_ok=True)
    with FileLock(RAW / ".lock"):  # several processes may share a folder
        return ensure(*given)


def read(cfg: DictConfig, kind: str, name: str) -> dict[str, Any]:
    """Return a manifest."""
    path, again = manifest_path(kind, name), f"dvc repro {stage_of(cfg, kind, name)}"
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        own = content.pop("sha256")
        if with_sha256(content)["sha256"] != own:
            raise ValueError("it has another sha256 than it states")
    except FileNotFoundError as error:
        raise DataError(f"no manifest of {kind} {name} ({path}): {again}") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error}): restore it from git, or {again}") from error
    return content


def with_sha256(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest together with the sha256 of its content."""
    content = json.dumps(manifest, sort_keys=True).encode()
    return {**manifest, "sha256": hashlib.sha256(content).hexdigest()}


def state(cfg: DictConfig, kind: str, name: str) -> bool:
    """Make the file and write its manifest; return False if the manifest is there and no file differs from it."""
    path, place, made_of = path_of(kind, name), manifest_path(kind, name), inputs(cfg, kind, name)
    try:
        manifest = read(cfg, kind, name)
        if manifest["inputs"] == made_of and (_found(path, manifest) or not path.exists()):
            return False
    except DataError:
        if place.exists():
            print(f"{place} is damaged: written again", file=sys.stderr)
    make(cfg, kind, name)
    write(cfg, kind, name)
    return True


def renew(cfg: DictConfig, kind: str, name: str) -> bool:
    """State in a manifest that the current code makes the same file; return whether the manifest changed.

    The caller must be sure that no byte of the file changes, as where a module moves.
    """
    manifest, made_of, path = read(cfg, kind, name), inputs(cfg, kind, name), path_of(kind, name)
    if manifest["inputs"] == made_of:
        return False
    if path.with_suffix(".json").exists() and _is_stated(path, manifest):
        on_disk.write_checksum(path, inputs=made_of)
    _write(kind, name, {**manifest, "inputs": made_of})
    return True


def write(cfg: DictConfig, kind: str, name: str) -> None:
    """Write the manifest of the existing file."""
    path = path_of(kind, name)
    stated = {"file": {"path": path.as_posix(), **describe(path)}, "inputs": inputs(cfg, kind, name)}
    made = {} if same_everywhere(cfg, kind, name) else {"made": described()}
    path.with_suffix(".json").unlink(missing_ok=True)
    _write(kind, name, {**stated, **_contents(path, kind), **made})


def _write(kind: str, name: str, manifest: Mapping[str, Any]) -> None:
    text, target = json.dumps(with_sha256(manifest), indent=2) + "\n", manifest_path(kind, name)
    on_disk.write(target.parent, {target.name: text.encode()})


def make(cfg: DictConfig, kind: str, name: str) -> None:
    """Make a file, and first all its inputs."""
    makers = {"dataset": _dataset, "weights": _weights, "features": _features, "reference": _reference}
    if name not in (names := known(cfg, kind)):
        raise DataError(f"no {kind} {name!r}: there are {', '.join(names)}")
    with pinned():
        makers[kind](cfg, name, path_of(kind, name))


def inputs(cfg: DictConfig, kind: str, name: str) -> str:
    """Return the hash of all inputs of a file."""
    settings, code, files = recipe_of(cfg, kind, name)
    if kind == "weights" and len(settings) == 1:  # no loader
        return key([kind, name, settings[0]])
    hashed = [] if trained(cfg, kind, name) else [code_hash(*code)]
    return key([kind, name, [*settings, *hashed, *(read(cfg, *each)["file"]["sha256"] for each in files)]])


class Recipe(NamedTuple):
    """What determines a file: JSON-like settings, names of modules and objects, kind and name of other files."""

    settings: list[Any]
    code: list[str]
    sources: Sequence[tuple[str, str]] = ()


def recipe_of(cfg: DictConfig, kind: str, name: str) -> Recipe:
    """Return what determines a file; no code for weights trained here: an edit does not train them again."""
    if kind == "dataset":
        loader = plain(cfg.dataset[name].loader)
        return Recipe([_sums(cfg.dataset[name].files), loader], targets(loader))
    if trained(cfg, kind, name):
        entry = plain(cfg.pretrain[name])
        return Recipe([entry, plain(cfg.backbone[name]), cfg.seed], [], [("dataset", entry["dataset"])])
    if kind == "weights":
        entry = plain(cfg.weights[name])
        loaders = [entry["loader"]] if entry.get("loader") else []
        return Recipe([_sums(entry["files"]), *loaders], targets(entry))
    if kind == "features":
        entry = {word: value for word, value in plain(cfg.features[name]).items() if word not in SUBSET}
        backbone, sets = plain(cfg.backbone[entry["backbone"]]), (entry["dataset"], entry["public"])
        files = [("weights", entry["backbone"]), *(("dataset", each) for each in sets)]
        code = ["dplangevin.backbones.features", *targets(backbone)]
        return Recipe([entry, backbone, cfg.seed], code, files)
    spec = {word: value for word, value in plain(cfg.reference).items() if word != "datasets"}
    problem = plain(cfg.problem[spec["problem"]])
    code = ["dplangevin.pipeline.reference", *targets(spec, problem)]
    return Recipe([spec, problem, cfg.seed, cfg.repeats], code, [("dataset", name)])


def known(cfg: DictConfig, kind: str) -> list[str]:
    """Return all names of a kind."""
    if kind == "reference":
        return list(cfg.reference.datasets) if "reference" in cfg else []
    groups = ("weights", "pretrain") if kind == "weights" else (kind,)
    return [str(name) for group in groups for name in cfg.get(group, {})]


def trained(cfg: DictConfig, kind: str, name: str) -> bool:
    """Return whether these are weights that are trained here, and not published ones."""
    return kind == "weights" and name not in cfg.get("weights", {})


def same_everywhere(cfg: DictConfig, kind: str, name: str) -> bool:
    """Return whether the file has the same bytes on every machine."""
    return kind in ("dataset", "weights") and not trained(cfg, kind, name)


def stage_of(cfg: DictConfig, kind: str, name: str) -> str:
    """Return the stage that writes a manifest."""
    return f"pretrain@{name}" if trained(cfg, kind, name) else stage(kind, name)


def path_of(kind: str, name: str) -> Path:
    """Return the place of a file."""
    return PLACES[kind] / f"{name}.npz"


def manifest_path(kind: str, name: str) -> Path:
    """Return the place of a manifest."""
    return FOLDER / kind / f"{name}.json"


def origin() -> list[Path]:
    """Return the checkout that DVC copied this folder from for an experiment, if it did."""
    return [at.parents[2] for at in Path.cwd().parents if at.parts[-3:] == (".dvc", "tmp", "exps")][:1]


def sources() -> list[str]:
    """Return where raw files are looked for first: the checkout that this is a copy of, and DATA_MIRROR."""
    near = [str(home / each) for home in origin() for each in (RAW, "data")]
    return [*near, *mirrors(os.environ.get("DATA_MIRROR", ""))]


def _dataset(cfg: DictConfig, name: str, target: Path) -> None:
    entry, folder = cfg.dataset[name], RAW / name
    if entry.files:
        fetch(name, entry.files, folder, sources(), entry.get("archive"), entry.get("urls", ()))
    instantiate(entry.loader, _partial_=True)(folder=folder).save(target)


def _weights(cfg: DictConfig, name: str, target: Path) -> None:
    if not trained(cfg, "weights", name):
        entry = cfg.weights[name]
        folder = RAW / "weights" if "loader" in entry else PLACES["weights"]
        fetch("weights", entry.files, folder, sources(), stage=f"weights@{name}")
        if "loader" in entry:
            save_arrays(target, instantiate(entry.loader, _partial_=True)(folder=folder))
        return
    made_of, in_git = inputs(cfg, "weights", name), BUNDLED / f"{name}.npz"
    if in_git.exists() and _inputs_in(in_git) == made_of:
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
        rng = random.generator(cfg.seed, f"{name}/reference")
        sampler = instantiate(spec.sampler)
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


def _inputs_in(path: Path) -> str:
    """Return the inputs that trained weights state; raise DataError if a byte of the file is another one."""
    fix = "git restore it, or delete it to train the weights again"
    with opened(path, "the weights", fix) as archive:
        arrays = dict(archive)  # compares the checksums
        return str(json.loads(arrays["meta"].tobytes()).get("inputs"))


def _sums(files: Any) -> list[list[str]]:
    return [[entry["name"], entry["sha256"]] for entry in files]
