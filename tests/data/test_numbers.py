"""A table with a header, which needs a YAML and no loader of its own."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from dplangevin.data import DataError, Dataset
from dplangevin.data.splits import Split
from dplangevin.pipeline import validate
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import softmax

ROOT = Path(__file__).parents[2]
ROWS = [(k / 10, 3.0 + k, -k, "good" if k % 3 == 0 else "bad") for k in range(20)]
RANGE = {"low": -32, "high": 32}  # a power of 2: no digit is lost
SCHEMA: dict[str, Any] = {
    "_target_": "dplangevin.data.table_schema.Schema",
    "target": "quality",
    "classes": ["bad", "good"],
    "columns": {"acid": RANGE, "sugar": RANGE, "ph": RANGE},
}
SPLIT = {"_target_": "dplangevin.data.splits.Split", "train_share": 0.75, "repeats": 3, "seed": 7}
TESTED = {"train_share": None, "repeats": 1, "test_file": "wine.csv"}


def write(
    folder: Path, rows: Any = ROWS, name: str = "wine.csv", header: str = "acid,sugar,ph,quality"
) -> Path:
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def loader(schema: Any = {}, split: Any = {}, **change: Any) -> dict[str, Any]:  # noqa: B006
    """The loader of an entry of conf/dataset with words of its schema, its split and its own changed."""
    return {
        "_target_": "dplangevin.data.loaders.table.load", "_convert_": "all", "name": "wine", "file": "wine.csv",
        "schema": {**SCHEMA, **schema}, "split": {**SPLIT, **split}, **change,
    }  # fmt: skip


def load(folder: Path, *parts: Any, **change: Any) -> Dataset:
    """As `manifest` does."""
    return instantiate(OmegaConf.create(loader(*parts, **change)), _partial_=True)(folder=folder)


def test_columns_labels_and_splits(tmp_path: Path) -> None:
    data = load(write(tmp_path))
    assert data.x_train.shape == (3, 15, 4)
    assert data.x_test.shape == (3, 5, 4)
    assert data.x_train.dtype == data.y_train.dtype == np.float32
    assert data.meta == {
        "name": "wine",
        "features": ["acid", "sugar", "ph", "bias"],
        "labels": ["bad", "good"],
        "row_norm_bound": 2.0,
    }
    rows = np.array([[a / 32, b / 32, c / 32, 1.0] for a, b, c, _ in ROWS])
    labels = np.array([1.0 if y == "good" else -1.0 for *_, y in ROWS])
    train, test = Split(0.75, repeats=3, seed=7).rows(20, "wine")
    np.testing.assert_allclose(data.x_train, rows[train], atol=1e-7)
    assert np.array_equal(data.y_test, labels[test])
    assert np.array_equal(data.x_train[:2], load(tmp_path, split={"repeats": 2}).x_train)
    data.save(tmp_path / "wine.npz")
    assert np.array_equal(
        Dataset.load(tmp_path / "wine.npz").scaled("global").x_train, data.scaled("global").x_train
    )


def test_scaling_takes_public_constants_only(tmp_path: Path) -> None:
    data = load(write(tmp_path), {"columns": {"ph": {"low": -16, "high": 0}}}, TESTED)
    assert data.x_train[0, 17:, 0].tolist() == [-1.0] * 3  # beyond the range
    fewer = load(write(tmp_path, ROWS[:9]), {"columns": {"ph": {"low": -16, "high": 0}}}, TESTED)
    assert np.array_equal(fewer.x_train, data.x_train[:, :9])  # other rows change nothing


def test_more_than_two_classes_and_a_file_to_test_on(tmp_path: Path) -> None:
    write(tmp_path, [*ROWS[:4], (1, 2, 3, "fair")])
    write(tmp_path, [(y, c, b, a) for a, b, c, y in ROWS[4:9]], "more.csv", "quality, ph ,sugar,acid")
    split = {**TESTED, "test_file": "more.csv"}
    three = {"classes": ["bad", "fair", "good"]}
    data = load(tmp_path, three, split)
    assert (data.repeats, data.classes, data.y_train.dtype) == (1, 3, np.int64)
    assert data.y_train.tolist() == [[2, 0, 0, 2, 1]]
    np.testing.assert_allclose(data.x_test[0, 0], [0.4 / 32, 7 / 32, -4 / 32, 1], atol=1e-7)
    assert data.y_test.tolist() == [[0, 0, 2, 0, 0]]
    data.save(tmp_path / "wine.npz")
    assert np.array_equal(Dataset.load(tmp_path / "wine.npz").y_train, data.y_train)
    assert Glm.from_dataset(data.scaled("unit"), 1, softmax(data.classes)).d == 12


@pytest.mark.parametrize(
    ("line", "change", "message"),
    [
        ("0.1,3,1,Good", {}, r"line 3, column quality: 'Good' is not one of bad, good"),
        ("0.1,3,1,bad", {"target": "qualty"}, r"wine\.csv: no column 'qualty' in the header; did you mean quality"),
        ("0.1,3,1,?", {}, r"wine\.csv, line 3, column quality: a missing label \('\?'\)"),
        (
            "0.1,3,-999,bad",
            {"classes": None, "target": "ph", "columns": {"acid": RANGE}, "range": {"low": -30, "high": 1},
             "missing": {"marks": ["-999"]}},
            "line 3, column ph: a missing label",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, line: str, change: dict[str, Any], message: str
) -> None:
    write(tmp_path, [ROWS[0], line.split(","), *ROWS[1:]])
    with pytest.raises(DataError, match=message):
        load(tmp_path, change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": {"classes": ["bad", "bad"]}}, "classes: 'bad' is there twice"),
        ({"schema": {"classes": [False, True]}}, "classes: False must be one text, in quotes"),
        ({"split": {"test_file": "wine.csv"}}, "give one of train_share"),
        ({"schema": {"columns": {"ph": {"mean": 1, "high": 1}}}}, "column ph = .*'high': 1} must be {low: "),
    ],
)  # fmt: skip
def test_an_entry_out_of_its_domain_is_refused_before_anything_is_read(
    change: dict[str, Any], message: str
) -> None:
    (fault,) = validate.check(loader(**change), key="loader.")
    assert re.search(message, fault), fault


def test_the_example_of_the_documentation_works(tmp_path: Path) -> None:
    """docs/data.md shows a whole file of conf/dataset/."""
    (example,) = re.findall(r"```yaml\n(# Wine: .*?)```", (ROOT / "docs/data.md").read_text(), re.DOTALL)
    cfg: Any = OmegaConf.create({"seed": 1, "splits": 2, "dataset": {"wine": OmegaConf.create(example)}})
    assert not validate.check(OmegaConf.to_container(cfg.dataset.wine.loader, resolve=True))
    loader = cfg.dataset.wine.loader
    schema = loader.schema
    columns = [*schema.columns, schema.target]
    rows = [[3.0] * len(schema.columns) + [schema.classes[k % 2]] for k in range(10)]
    lines = [schema.delimiter.join(map(str, row)) for row in (columns, *rows)]
    (tmp_path / loader.file).write_text("\n".join(lines) + "\n")
    data = instantiate(loader, _partial_=True)(folder=tmp_path)
    assert data.x_train.shape == (2, 8, len(columns))
    assert {"files", "assumptions"} <= set(cfg.dataset.wine)
