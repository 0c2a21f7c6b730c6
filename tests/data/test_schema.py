"""What is public of a table: the template of a schema, what it refuses, and the rows that it makes."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplangevin.data import DataError, Dataset, columns, template
from dplangevin.data import table_schema as schemas
from dplangevin.data.encoding import encode
from dplangevin.data.loaders import table as loader
from dplangevin.data.splits import Split
from dplangevin.data.table_schema import Schema

TABLE = """\
age,ward,"weight, kg",id,sick
41,A,70.5,p1,no
,B,"81,0",p2,yes
17,ü,66,p3,no
130,A,NA,p4,yes
"""
GIVEN: dict[str, Any] = {
    "target": "sick",
    "classes": ["no", "yes"],
    "delimiter": ",",
    "missing": {"marks": ["", "NA"], "as": "midpoint"},
    "ranges_from_data": False,
    "columns": {
        "age": {"low": 0, "high": 100},
        "ward": {"values": ["A", "B", "ü"]},
        "weight, kg": {"low": 50, "high": 100},
        "id": "drop",
    },
}


def table(folder: Path, text: str = TABLE) -> Path:
    path = folder / "mine.csv"
    path.write_text(text.replace('"81,0"', "81"), encoding="utf-8")
    return path


def load(path: Path, given: dict[str, Any]) -> Dataset:
    """The same rows to train and to test on."""
    schema = Schema.of(given, "schema.yaml")
    return loader.load(path.parent, "mine", path.name, schema, Split(test_file=path.name))


def test_rows_are_made_of_public_constants_alone(tmp_path: Path) -> None:
    path = table(tmp_path)
    data = load(path, GIVEN)
    assert data.meta["features"] == ["age", "ward=A", "ward=B", "ward=ü", "weight, kg", "bias"]
    wanted: list[list[float]] = [
        [-0.18, 1, 0, 0, -0.18, 1],
        [0, 0, 1, 0, 0.24, 1],
        [-0.66, 0, 0, 1, -0.36, 1],
        [1, 1, 0, 0, 0, 1],
    ]
    np.testing.assert_allclose(data.x_train[0], wanted, atol=1e-6)
    assert data.meta["clipped"] == {"age": 1}  # read once, to train and to test on
    assert data.meta["row_norm_bound"] == 2.0  # three columns and the bias
    assert np.linalg.norm(data.scaled("global").x_train[0], axis=1).max() <= 1
    assert data.y_train.tolist() == [[-1, 1, -1, 1]]
    middle = {**GIVEN["columns"], "ward": {"values": ["A", "B"]}}
    gone = table(tmp_path, TABLE.replace("ü", "?"))
    marks = {"marks": ["", "NA", "?"], "as": "midpoint"}
    data = load(gone, {**GIVEN, "missing": marks, "columns": middle})
    assert data.x_train[0, 2, 1:3].tolist() == [0.5, 0.5]
    with pytest.raises(DataError, match="line 3, column age: '' is a missing value: say what"):
        load(table(tmp_path, TABLE.replace('"81,0"', "NA")), {**GIVEN, "missing": {"marks": ["", "NA"]}})


def test_numeric_targets_are_scaled_by_their_range_and_scored_in_their_units(tmp_path: Path) -> None:
    path = table(tmp_path)
    columns = {name: value for name, value in GIVEN["columns"].items() if name != "age"}
    columns |= {"sick": {"values": ["no", "yes"]}}
    given = {**GIVEN, "target": "age", "range": {"low": "17", "high": 100}, "columns": columns}
    del given["classes"]
    with pytest.raises(DataError, match=r"mine\.csv, line 3, column age: a missing label"):
        load(path, given)
    path = table(tmp_path, TABLE.replace("\n,B", "\n100,B"))
    data = load(path, given)
    assert data.target == (17.0, 100.0)
    np.testing.assert_allclose(data.y_train[0], [2 * 24 / 83 - 1, 1, -1, 1])
    assert data.meta["clipped"] == {"age": 1}
    away = np.abs(np.array([41, 100, 17, 100]) - 70.5).mean()  # the median of what is clipped
    assert data.constant() == {"constant_absolute_error": pytest.approx([away], rel=1e-6)}
    data.save(tmp_path / "mine.npz")
    assert Dataset.load(tmp_path / "mine.npz").target == data.target


def test_encode_warns_of_every_assumption(tmp_path: Path) -> None:
    path, flags = table(tmp_path), {"kinds_from_data": True, "ranges_from_data": True, "unlabelled": "drop"}
    with pytest.warns(UserWarning, match="mine.csv: ") as found:
        encode(path, {**GIVEN, **flags})
    said = [str(each.message) for each in found]
    assert [text[:10] for text in said] == ["mine.csv: "] * 3
    assert "whether values are missing" in said[1]


@pytest.mark.parametrize("fill", [False, True])
def test_a_template_is_read_back_and_shows_no_row_unless_asked(tmp_path: Path, fill: bool) -> None:
    path = table(tmp_path)
    reading = columns.read(path)
    given, dropped = template.template(reading, "sick", fill)
    assert not dropped
    text = schemas.to_yaml(given, path.name)
    (tmp_path / "schema.yaml").write_text(text, encoding="utf-8")
    again = schemas.read(tmp_path / "schema.yaml")
    if fill:
        assert Schema.of(again, "x") == Schema.of(given, "x")
    if fill:
        assert given["columns"]["age"] == {"low": 17.0, "high": 130.0}
        assert given["columns"]["ward"] == {"values": ["A", "B", "ü"]}
        assert given["missing"]["as"] == "category"
        assert "READ OFF THE DATA" in text
        assert Schema.of(given, "x").assumptions == [*schemas.FLAGS.values()]
        checked = {**given, "kinds_from_data": "false"}
        assert Schema.of(checked, "x").assumptions == [schemas.FROM_DATA]
    else:
        assert not any(value in text for value in ("17", "130", "ü", "yes", "66"))
        with pytest.raises(ValueError, match=r"column age = .*\?\?\?.* must be"):
            Schema.of(given, "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clases": 1}, "unknown word 'clases'; did you mean classes"),
        ({"classes": None}, "give classes of the target, or its range"),
        ({"columns": {"age": {"low": 3, "high": 3}}}, "column age = .* low below high"),
        ({"columns": {"age": {"low": "x", "high": 3}}}, "column age = .* must be .* two numbers"),
        ({"columns": {"age": {"low": 3}}}, r"column age = \{'low': 3\} must be"),
        ({"columns": {"age": "dorp"}}, "column age = 'dorp' must be"),
        ({"columns": {"sick": "drop"}}, "sick is the target"),
        ({"columns": {"age": "drop"}}, "no column is left"),
        ({"missing": {"as": "mean"}}, "'mean' must be one of error, category, midpoint"),
    ],
)
def test_schemas_that_say_nothing_useful_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schema.of({**GIVEN, **change}, "schema.yaml")


def test_folds_test_every_row_once() -> None:
    train, test = Split(folds=3).rows(11, "x")
    assert (train.shape, test.shape) == ((3, 8), (3, 3))
    assert len(set(test.ravel())) == 9
    assert all(set(a) | set(b) == set(range(11)) for a, b in zip(train, test, strict=True))
    with pytest.raises(ValueError, match="folds = 12 of 11 rows"):
        Split(folds=12).rows(11, "x")


VALUES = st.recursive(
    st.sampled_from(["", "a", "???", "drop", "1", "nan", None, 1, -1.5, True, "low", "error", "\t"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "low", "high", "values", "missing", "marks", "as"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([*schemas.WORDS, "other"]), VALUES))
@settings(max_examples=150)
def test_whatever_a_schema_says_it_is_taken_or_refused(change: dict[str, Any]) -> None:
    """Any error but ValueError fails the test."""
    with suppress(ValueError):
        Schema.of({**GIVEN, **change}, "schema.yaml")
