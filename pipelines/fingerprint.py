"""Stage code: a hash for each stage of what it reads beside data, written to data/manifest/code.json.

DVC would look up each parameter of a stage with a walk through all of params.yaml, which takes a minute for all stages.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analyse import described
from omegaconf import DictConfig, OmegaConf
from stage import stage

from dplangevin.files import key, write
from dplangevin.pipeline import manifest
from dplangevin.pipeline.code import code_hash, targets
from dplangevin.pipeline.config import ConfigError, check_values, content
from dplangevin.pipeline.plan import tasks


def fingerprints(cfg: DictConfig) -> dict[str, Any]:
    """Return stage group -> key -> hash; a group with one stage has only the hash."""
    conf: Any = OmegaConf.to_container(cfg, resolve=True)
    pipeline, hashes = conf["pipeline"], {}
    for kind in manifest.PLACES:
        recipes = {name: manifest.recipe_of(cfg, kind, name) for name in manifest.known(cfg, kind)}
        hashes[kind] = {name: key([code_hash(*code), given]) for name, (given, code, _) in recipes.items()}
    runs, unused = {}, dict.fromkeys(("epsilons", "runs", "settings", "vary"))  # the tasks have them
    for name, run in pipeline["run_stages"].items():
        spec = {**conf["experiment"][run["experiment"]], "delta of conf": conf["delta"], "seed": conf["seed"]}
        runs[name] = spec | unused | {"tasks": tasks(cfg, run["experiment"], run["dataset"])}
    analyses = {name: {"seed": conf["seed"], **described(cfg, name)} for name in pipeline["analyses"]}
    return hashes | {
        "run": {name: shown("run", config) for name, config in runs.items()},
        "analysis": {name: shown("analyse", config) for name, config in analyses.items()},
        "render": {name: shown("render", content("exhibit", name, cfg)) for name in pipeline["exhibits"]},
        "claims": shown("report", {paper: content("claim", paper, cfg) for paper in pipeline["papers"]}),
    }


def shown(script: str, config: Mapping[str, Any]) -> str:
    """Return the hash of a config and of the code that a script of pipelines/ and the config's objects can reach."""
    # manifest reaches all code, and the stages that use it have hashes of their own
    return key([code_hash(script, *targets(config), without=("stage", manifest.__name__)), config])


def modified() -> set[tuple[Path, int]]:
    """Return every file that the hashes are of, with the time of its last change."""
    files = Path("params.yaml"), *Path("conf").rglob("[!.]*.yaml"), *Path("src").rglob("[!.]*.py")
    return {(path, path.stat().st_mtime_ns) for path in files}


@stage
def main(cfg: DictConfig) -> None:
    """Check the parameters, then write the hashes; every other stage runs after this one."""
    before = modified()
    check_values(cfg)
    write(Path("data/manifest"), {"code.json": (json.dumps(fingerprints(cfg), indent=1) + "\n").encode()})
    for path, _ in before ^ modified():  # DVC enters in dvc.lock what it finds afterwards
        raise ConfigError(f"{path} changed while this stage was at work: run it again")
