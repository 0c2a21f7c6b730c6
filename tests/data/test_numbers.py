"""A table of numbers with a header, which needs a YAML and no loader of its own."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from dplangevin.data import DataError, Dataset, generator, split
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import softmax

ROOT = Path(__file__).parents[2]
ROWS = [(k / 10, 3.0 + k, -k, "good" if k % 3 == 0 else "bad") for k in range(20)]
CONF = """
row_norm_bound: 4.0
limit: null
loader:
  _target_: dplangevin.data.loaders.table.load
  _convert_: all
  row_norm_bound: ${..row_norm_bound}
  limit: ${..limit}
  name: wine
  file: wine.csv
  label: quality
  classes: [bad, good]
  train_share: 0.75
  repeats: 3
  seed: 7
"""


def write(
    folder: Path, rows: Any = ROWS, name: str = "wine.csv", header: str = "acid,sugar,ph,quality"
) -> Path:
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def load(folder: Path, **change: Any) -> Dataset:
    """As `manifest` does, with arguments of the loader changed; None leaves one out."""
    cfg: Any = OmegaConf.create(CONF)
    given = {**OmegaConf.to_container(cfg.loader), **change}  # type: ignore[dict-item]
    cfg.loader = {name: value for name, value in given.items() if value is not None}
    return instantiate(cfg.loader, _partial_=True)(folder=folder)


def test_columns_labels_and_splits(tmp_path: Path) -> None:
    data = load(write(tmp_path))
    assert data.x_train.shape == (3, 15, 4)
    assert data.x_test.shape == (3, 5, 4)
    assert data.x_train.dtype == data.y_train.dtype == np.float32
    assert data.meta == {
        "name": "wine",
        "features": ["acid", "sugar", "ph", "bias"],
        "labels": ["bad", "good"],
        "row_norm_bound": 4.0,
    }
    rows = np.array([[a, b, c, 1.0] for a, b, c, _ in ROWS], np.float32)
    labels = np.array([1.0 if y == "good" else -1.0 for *_, y in ROWS])
    train, test = split(20, 3, 0.75, generator(7, "wine/split"))
    assert np.array_equal(data.x_train, rows[train])
    assert np.array_equal(data.y_test, labels[test])
    assert np.array_equal(data.x_train[:2], load(tmp_path, repeats=2).x_train)
    data.save(tmp_path / "wine.npz")
    assert np.array_equal(
        Dataset.load(tmp_path / "wine.npz").scaled("global").x_train, data.scaled("global").x_train
    )


def test_what_is_used_and_in_which_order(tmp_path: Path) -> None:
    data = load(write(tmp_path), columns=["ph", "acid"], bias=False)
    assert data.meta["features"] == ["ph", "acid"]
    assert np.array_equal(np.unique(data.x_train[0, :, 0] / -10), np.unique(data.x_train[0, :, 1]))
    assert load(tmp_path, limit=8).n == 6


def test_scaling_takes_public_constants_only(tmp_path: Path) -> None:
    scale = {"sugar": {"mean": 10.0, "sd": 4.0}, "ph": {"low": -16, "high": 0}}
    data = load(write(tmp_path), scale=scale, test_file="wine.csv", train_share=None)
    _, sugar, ph, _ = np.array([(*row[:3], 0) for row in ROWS]).T
    np.testing.assert_allclose(data.x_train[0, :, 1], (sugar - 10) / 4, rtol=1e-6)
    np.testing.assert_allclose(data.x_train[0, :, 2], np.clip(ph, -16, 0) / 8 + 1, rtol=1e-6)
    assert (data.x_train[0, 17:, 2] == -1).all()  # beyond the range
    fewer = load(write(tmp_path, ROWS[:9]), scale=scale, test_file="wine.csv", train_share=None)
    assert np.array_equal(fewer.x_train, data.x_train[:, :9])  # other rows change nothing


def test_more_than_two_classes_a_positive_value_and_files(tmp_path: Path) -> None:
    write(tmp_path, [*ROWS[:4], (1, 2, 3, "fair")])
    write(tmp_path, [(y, c, b, a) for a, b, c, y in ROWS[4:9]], "more.csv", "quality, ph ,sugar,acid")
    both = {"file": ["wine.csv", "more.csv"], "test_file": "more.csv", "train_share": None}
    data = load(tmp_path, classes=["bad", "fair", "good"], **both)
    assert (data.repeats, data.classes, data.y_train.dtype) == (1, 3, np.int64)
    assert data.y_train.tolist() == [[2, 0, 0, 2, 1, 0, 0, 2, 0, 0]]
    assert data.x_train[0, 5].tolist() == [np.float32(0.4), 7.0, -4.0, 1.0]
    assert data.y_test.tolist() == [[0, 0, 2, 0, 0]]
    data.save(tmp_path / "wine.npz")
    assert np.array_equal(Dataset.load(tmp_path / "wine.npz").y_train, data.y_train)
    positive = load(tmp_path, classes=None, positive="good", **both)
    assert positive.y_train.tolist() == [[1, -1, -1, 1, -1, -1, -1, 1, -1, -1]]
    assert positive.meta["labels"] == ["not good", "good"]
    write(tmp_path, [*ROWS[:2], (1, 2, 3, "?"), *ROWS[2:]])
    with pytest.raises(DataError, match=r"wine\.csv, line 4, column quality: '\?' is a missing label"):
        load(tmp_path, classes=None, positive="good", missing=["?"])


def test_labels_that_are_numbers_and_another_delimiter(tmp_path: Path) -> None:
    (tmp_path / "wine.csv").write_text('\ufeff"acid";"class"\n1;0\n2;1\n\n3;1\n4;0 \n', encoding="utf-8")
    data = load(
        tmp_path, label="class", classes=[0, 1], delimiter=";", test_file="wine.csv", train_share=None
    )
    assert data.y_train.tolist() == [[-1, 1, 1, -1]]
    assert data.meta["features"] == ["acid", "bias"]


@pytest.mark.parametrize(
    ("line", "change", "message"),
    [
        ("0.1,x3,1,bad", {}, r"wine\.csv, line 3, column sugar: 'x3' is not a number"),
        ("0.1,,1,bad", {}, r"wine\.csv, line 3, column sugar: '' is not a number"),
        ("0.1,nan,1,bad", {}, r"line 3, column sugar: 'nan' is not a number"),
        ("0.1,1e39,1,bad", {}, r"line 3, column sugar: '1e39' is not a number"),
        ("0.1,3_0,1,bad", {}, r"line 3, column sugar: '3_0' is not a number"),
        ("0.1,3,1,Good", {}, r"line 3, column quality: 'Good' is not one of bad, good"),
        ("0.1,3,1", {}, r"wine\.csv, line 3: 3 values, expected 4"),
        ("0.1,3,1,bad,", {}, r"wine\.csv, line 3: 5 values, expected 4"),
        ("0.1,3,1,bad", {"label": "qualty"}, r"wine\.csv: no column 'qualty' in the header: did you mean 'quality'"),
        ("0.1,3,1,bad", {"label": "target"}, r"no column 'target' .*: there are acid, sugar, ph, quality"),
        ("0.1,3,1,bad", {"columns": ["sugr"]}, r"no column 'sugr' in the header: did you mean 'sugar'\?"),
        ("0.1,3,1,bad", {"scale": {"acidity": {"low": 0, "high": 1}}}, r"'acidity'.*did you mean 'acid'\?"),
        ("0.1,3,1,bad", {"columns": ["ph"], "scale": {"acid": {"low": 0, "high": 1}}}, "scale names acid"),
        (
            "0.1,3,1,bad",
            {"classes": None, "positive": "god"},
            r"wine, column quality: no row has 'god': did you mean 'good'",
        ),
        (
            "0.1,3,-999,bad",
            {"classes": None, "label": "ph", "columns": ["acid"],
             "target": {"low": -30, "high": 1}, "missing": ["-999"]},
            "line 3, column ph: '-999' is a missing label",
        ),
        ("0.1,3,1,bad", {"file": "win.csv"}, r"win\.csv is missing.*dvc repro -f prepare@"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, line: str, change: dict[str, Any], message: str
) -> None:
    write(tmp_path, [ROWS[0], line.split(","), *ROWS[1:]])
    with pytest.raises(DataError, match=message):
        load(tmp_path, **change)


def test_a_problem_is_made_of_it(tmp_path: Path) -> None:
    data = load(write(tmp_path)).scaled("global")
    assert Glm.from_dataset(data, 3).d == 4
    write(tmp_path, [*ROWS, (1, 2, 3, "fair")])
    three = load(tmp_path, classes=["bad", "fair", "good"]).scaled("unit")
    assert Glm.from_dataset(three, 3, softmax(three.classes)).d == 12


def test_headers_that_do_not_name_columns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"wine\.csv, line 1: the header has 'acid' twice"):
        load(write(tmp_path, header="acid,acid,ph,quality"))
    with pytest.raises(DataError, match=r"wine\.csv has no rows"):
        load(write(tmp_path, []))
    (tmp_path / "wine.csv").write_text("")
    with pytest.raises(DataError, match=r"wine\.csv has no rows"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": None}, "give one of classes"),
        ({"positive": "good"}, "give one of classes"),
        ({"classes": ["bad"]}, "need two or more different values"),
        ({"classes": ["bad", "bad"]}, "need two or more different values"),
        ({"classes": [False, True]}, "label False: put it in quotes"),
        ({"test_file": "wine.csv"}, "give one of test_file, train_share"),
        ({"train_share": None}, "give one of test_file, train_share"),
        ({"train_share": 1.0}, "leaves an empty part"),
        ({"columns": ["ph", "quality"]}, "quality is the label: no other argument may name it"),
        ({"scale": {"quality": {"low": 0, "high": 1}}}, "quality is the label: no other argument may name it"),
        ({"row_norm_bound": 0}, "row_norm_bound = 0 must be positive"),
        ({"scale": {"ph": {"mean": 0, "sd": 0}}}, "scale of ph: sd = 0 must be positive"),
        ({"scale": {"ph": {"low": 1, "high": 1}}}, "scale of ph: low = 1 must be below high = 1"),
        ({"scale": {"ph": {"mean": 1, "high": 1}}}, "scale of ph has mean, high: give mean and sd, or low and high"),
    ],
)  # fmt: skip
def test_arguments_out_of_their_domain_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    write(tmp_path)
    with pytest.raises(ValueError, match=message):
        load(tmp_path, **change)


def test_the_example_of_the_documentation_works(tmp_path: Path) -> None:
    """docs/data.md shows a whole file of conf/dataset/."""
    (example,) = re.findall(r"```yaml\n(title: .*?)```", (ROOT / "docs/data.md").read_text(), re.DOTALL)
    cfg: Any = OmegaConf.create({"seed": 1, "splits": 2, "dataset": {"wine": OmegaConf.create(example)}})
    loader = cfg.dataset.wine.loader
    columns = [*loader.scale, loader.label]
    rows = [[3.0] * len(loader.scale) + [loader.classes[k % 2]] for k in range(10)]
    write(tmp_path, rows, loader.file, loader.delimiter.join(columns))
    if loader.delimiter != ",":
        text = (tmp_path / loader.file).read_text().replace(",", loader.delimiter)
        (tmp_path / loader.file).write_text(text)
    data = instantiate(loader, _partial_=True)(folder=tmp_path)
    assert data.x_train.shape == (2, 8, len(columns))
    assert {"title", "citation", "license", "files", "assumptions"} <= set(cfg.dataset.wine)
