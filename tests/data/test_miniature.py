"""The stand-ins of the smoke run: the same bytes every time, and what conf/ asks for."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from composed import composed
from omegaconf import OmegaConf

from dplangevin.data import miniature
from dplangevin.data.miniature import pickled
from dplangevin.files import sha256

ROOT = Path(__file__).parents[2]
# sha256 of the list of all files' sha256, in the order of their paths.
BYTES = "6a3c7c7e753c72db96019eb1a70f2c3eb78b3d447545f0ec277dec8a61d63dff"


def hashes(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path) for path in paths}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mini")
    miniature.write(made)
    return made


@pytest.mark.slow
def test_bytes_are_the_same_in_another_process_and_on_any_machine(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dplangevin.data.miniature", str(tmp_path / "again")]
    env = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PYTHONPATH": str(ROOT / "src")}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    assert hashes(tmp_path / "again") == hashes(folder)
    assert hashlib.sha256(json.dumps(hashes(folder)).encode()).hexdigest() == BYTES
    smoke = OmegaConf.create(printed)
    files = [
        file for group in (smoke.dataset, smoke.weights) for value in group.values() for file in value.files
    ]
    assert sorted(file.sha256 for file in files) == sorted(hashes(folder).values())


@pytest.mark.slow
def test_the_smoke_scale_asks_for_every_file(folder: Path) -> None:
    cfg = composed("scale=smoke", "pipeline=svhn")
    asked = {key: cfg.dataset[key].files for key in cfg.pipeline.datasets}
    asked["weights"] = [file for name in cfg.pipeline.weights for file in cfg.weights[name].files]
    files = [(key, file) for key, own in asked.items() for file in own if not file.get("bundled")]
    assert {f"{key}/{file.name}": file.sha256 for key, file in files} == hashes(folder)
    for key, file in files:
        assert (folder / key / file.name).stat().st_size == file.size
        assert file.urls == [miniature.SOURCE]


def test_a_file_of_the_smoke_scale_has_the_name_of_the_official_one() -> None:
    official = {path.stem: OmegaConf.load(path) for path in (ROOT / "conf/dataset").glob("*.yaml")}
    for key in [*miniature.MAKERS][:-1]:
        assert {*miniature.files(key)} == {file.name for file in official[key].files}


def test_only_what_a_batch_holds_can_be_pickled() -> None:
    with pytest.raises(TypeError, match="float has no place in a batch"):
        pickled({"data": 1.5})
