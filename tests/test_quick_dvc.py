"""What the driver does in DVC's place gives what DVC gives."""

from pathlib import Path

import pytest
import quick_dvc
from dvc import dvcfile
from dvc.dependency import param
from dvc.fs import LocalFileSystem

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((param, "read_param_file"), (dvcfile, "modify_yaml")):
        monkeypatch.setattr(module, name, getattr(module, name))


def test_parameters_are_those_that_dvc_reads() -> None:
    keys = [
        "seed",
        "method.ops",
        "method.ops.radius",
        "experiment.wang2015.epsilons.adult",
        "no.such",
        "seed.deeper",
    ]
    fs, path = LocalFileSystem(), str(ROOT / "params.yaml")
    expected = param.read_param_file(fs, path, keys, flatten=True)
    quick_dvc.install()
    assert param.read_param_file(fs, path, keys, flatten=True) == expected
    assert set(expected) == set(keys[:4])


def test_lock_files_have_the_bytes_that_dvc_writes(tmp_path: Path) -> None:
    original, changed = (ROOT / "dvc.lock").read_bytes(), []
    for quick in (False, True):
        if quick:
            quick_dvc.install()
        path = tmp_path / f"{quick}.lock"
        path.write_bytes(original)
        for number in (1e-5, 2):
            with dvcfile.modify_yaml(str(path), fs=LocalFileSystem()) as data:
                data["stages"]["new"] = {
                    "cmd": "true",
                    "params": {"params.yaml": {"delta": number, "text": "a: b"}},
                }
        changed.append(path.read_bytes())
    assert changed[0] == changed[1] != original
