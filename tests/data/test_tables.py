"""Adult, Abalone and the synthetic set: small files in the official format, and the full ones from the bundle."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from loading import ROOT, config, load
from omegaconf import OmegaConf

from dplangevin.data import DataError, row_norms
from dplangevin.data.fetch import fetch
from dplangevin.files import sha256

KEYS = ("adult", "abalone")
ADULT = [
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, "
    "40, United-States, <=50K",
    "50, ?, 83311, HS-grad, 9, Married-civ-spouse, ?, Husband, Black, Male, 0, 0, 13, ?, >50K",
]
# Processed bytes at seed 20150706 with ten repeats.
PROCESSED = {
    "adult": "53e3c214a42a3fbc0a747f0305f4853fbd03f171d80b26fcb352f209cc137b7d",
    "abalone": "b351b7ec4cb702f619a6011fda3ad961954abd8c8c5624360e25ec9923a3ac92",
}


def write_adult(folder: Path, train: list[str] = ADULT, test: list[str] = ADULT) -> Path:
    (folder / "adult.data").write_text("\n".join(train) + "\n\n")
    (folder / "adult.test").write_text(
        "|1x3 Cross validator\n" + "".join(f"{line}.\n" for line in test) + "\n"
    )
    return folder


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Husband", "Spouse", r"adult\.test, line 3, column relationship: 'Spouse'"),
        ("Bachelors", "Bachelor", r"adult\.data, line 1, column education: 'Bachelor' is not one of"),
        ("77516", "7751x", r"adult\.data, line 1, column fnlwgt: '7751x' is not a number"),
        ("<=50K", "=50K", r"adult\.data, line 1, column income: '=50K' is not one of"),
        ("State-gov, ", "", r"adult\.data, line 1: 14 values, expected 15"),
    ],
)
def test_adult_errors_name_line_and_value(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Line numbers of the test file count its first line, which is no row."""
    write_adult(tmp_path, [ADULT[0].replace(old, new), ADULT[1]], [ADULT[0], ADULT[1].replace(old, new)])
    with pytest.raises(DataError, match=message):
        load("adult", tmp_path)


def test_limit_keeps_the_first_rows(tmp_path: Path) -> None:
    whole = load("adult", write_adult(tmp_path))
    first = load("adult", tmp_path, limit=1)
    assert np.array_equal(first.x_train, whole.x_train[:, :1])
    assert first.x_test.shape == (1, 1, 109)


@pytest.mark.parametrize("key", KEYS)
def test_an_empty_file_is_named(tmp_path: Path, key: str) -> None:
    (tmp_path / f"{key}.data").write_text("\n")
    with pytest.raises(DataError, match=rf"{key}\.data has no rows"):
        load(key, tmp_path)


def test_synthetic_sets(tmp_path: Path) -> None:
    data = load("synthetic", tmp_path)
    assert data.x_train.shape == (10, 1000, 10)
    assert data.x_test.shape == (1, 20000, 10)
    assert len({x.tobytes() for x in data.x_train}) == 10
    assert (data.y_train.sum(axis=1) == 0).all()
    # In random order, consecutive labels differ about half the time.
    assert 400 < (np.diff(data.y_train[0]) != 0).sum() < 600
    x, y = data.x_test[0].astype(float), data.y_test[0].astype(float)
    centre = np.array([0.6] + [0.0] * 9)
    np.testing.assert_allclose((x * y[:, None]).mean(axis=0), centre, atol=4 / np.sqrt(20000))
    residual = x - y[:, None] * centre
    np.testing.assert_allclose(residual.T @ residual / 20000, np.eye(10), atol=0.05)
    assert (np.sign(x[:, 0]) == y).mean() == pytest.approx(0.7257, abs=0.01)  # Phi(0.6)
    unit, norms = row_norms(data.scaled("unit").x_train), row_norms(data.scaled("global").x_train)
    assert 1 - 1e-6 < unit.min() <= unit.max() <= 1
    assert norms.max() <= 1


def test_synthetic_repeats_do_not_depend_on_how_many_follow(tmp_path: Path) -> None:
    change = {"n_train": 50, "n_test": 60}
    many, few = (load("synthetic", tmp_path, loader=change | {"repeats": r}) for r in (4, 2))
    assert np.array_equal(many.x_train[:2], few.x_train)
    assert np.array_equal(many.x_test, few.x_test)
    assert load("synthetic", tmp_path, limit=30).x_train.shape == (10, 30, 10)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of the raw files of Adult and Abalone, from the bundle."""
    top = tmp_path_factory.mktemp("raw")
    for key in KEYS:
        files = [{**file, "bundled": str(ROOT / file.bundled), "urls": []} for file in config(key).files]
        fetch(key, files, top / key)
    return top


@pytest.mark.parametrize("key", KEYS)
def test_processed_bytes_are_pinned(raw: Path, key: str, tmp_path: Path) -> None:
    """The same file on any machine: here with another thread count and time zone than its own."""
    cfg = OmegaConf.create(OmegaConf.to_container(config(key), resolve=True))
    OmegaConf.save(cfg, tmp_path / "dataset.yaml")
    script = """if True:
        import sys
        from pathlib import Path
        from hydra.utils import instantiate
        from omegaconf import OmegaConf
        cfg = OmegaConf.load(sys.argv[1])
        instantiate(cfg.loader, _partial_=True)(folder=Path(sys.argv[2])).save(sys.argv[3])
    """
    env = os.environ | {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3", "TZ": "Pacific/Chatham"}
    env["PYTHONPATH"] = str(ROOT / "src")
    arguments = [tmp_path / "dataset.yaml", raw / key, tmp_path / "made.npz"]
    subprocess.run([sys.executable, "-c", script, *arguments], check=True, env=env)
    assert sha256(tmp_path / "made.npz") == PROCESSED[key]
