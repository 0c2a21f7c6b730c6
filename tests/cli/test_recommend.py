"""`dplangevin recommend`: what it reads, and what it says."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dplangevin.cli import app, main

SCHEMA = """
target: label
classes: [a, b, c]
columns:
  age: {low: 0, high: 120}
  ward: {values: [A, B, C], missing: category}
  id: drop
"""
HEADER = 'id,"age",ward,label\n'
ROWS = "1,30,A,a\n2,40,B,b\n\n3,50,,c\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("my.csv").write_text(HEADER + ROWS)
    Path("schema.yaml").write_text(SCHEMA)
    return tmp_path


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["recommend", *words])


@pytest.mark.usefixtures("here")
def test_facts_come_from_the_header_the_schema_and_the_count() -> None:
    done = run("my.csv", "--schema", "schema.yaml", "--epsilon", "0.1,1", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    # age, three wards, one missing, the bias
    assert (found["records"], found["columns"], found["classes"]) == (3, 6, 3)
    assert [each["epsilon"] for each in found["recommended"]] == [0.1, 1.0]
    printed = run("my.csv", "--schema", "schema.yaml").stdout
    assert "their number is taken as public" in printed
    assert f"Recommended at ε = 1: {found['recommended'][1]['method']}." in printed
    assert "counted" not in run("my.csv", "--schema", "schema.yaml", "--records", "3").stdout


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("schema", [[], ["--schema", "schema.yaml"]])
def test_no_value_of_a_row_is_read(schema: list[str]) -> None:
    """Rows of other content, bytes that are no text and an open quote among them, give the same output."""
    before = run("my.csv", *schema, "--records", "3").stdout
    assert before
    for rows in (b"x\n\xff\xfe;;;;\n\0\n", b'1,"a\n', b"", ROWS.encode() * 100):
        Path("my.csv").write_bytes(HEADER.encode() + rows)
        assert run("my.csv", *schema, "--records", "3").stdout == before
    Path("my.csv").write_bytes(HEADER.encode() + b"\xff,\0,3,4\n" * 3)
    counted = run("my.csv", *schema)
    assert "3 records" in counted.stdout


@pytest.mark.usefixtures("here")
def test_without_a_table() -> None:
    done = run("--records", "30000", "--columns", "100", "--epsilon", "1")
    assert "Public facts: 30,000 records, 100 columns after encoding, 2 classes." in done.stdout
    assert run("my.csv").stdout.count("each column counts as one") == 1


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns", "3"], "--records is missing: give it, or a table and its --schema"),
        (["--records", "3"], "--columns is missing"),
        (["no.csv"], "there is no file no.csv"),
        (["folder"], "folder is a folder: name the file of the table"),
        (["open.csv"], "open.csv, line 2: a value of more than 131,072 characters: is a quote not closed?"),
        (["my.csv", "--epsilon", "x"], "--epsilon x: need numbers"),
        (["my.csv", "--epsilon", "-1"], "epsilon must be positive"),
        (["--schema", "range.yaml", "--records", "3"], "the leaderboard has no regression"),
        (["my.csv", "--schema", "other.yaml"], "no column 'agee' in the header: did you mean 'age'"),
    ],
)
def test_wrong_input_is_one_line(words: list[str], message: str) -> None:
    Path("range.yaml").write_text(SCHEMA.replace("classes: [a, b, c]", "range: {low: 0, high: 1}"))
    Path("other.yaml").write_text(SCHEMA.replace("age:", "agee:"))
    Path("open.csv").write_text(HEADER + '1,"' + "x" * 131_073)
    Path("folder").mkdir()
    done = run(*words)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert message in done.stderr


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("many", "length"), [(61, 16), (300, 490)])
@pytest.mark.parametrize("mark", [",", ";"])
def test_a_header_may_be_long(many: int, length: int, mark: str) -> None:
    """With another mark it is one value, too long for a name or even for `csv`."""
    Path("my.csv").write_text(mark.join(f"{i:0{length}}" for i in range(many)) + "\n")
    assert f"9 records, {many} columns" in run("my.csv", "--records", "9").stdout


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_output_that_cannot_show_greek_letters(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="latin-1", write_through=True))
    monkeypatch.setattr(
        "sys.argv", ["dplangevin", "recommend", "--records", "30000", "--columns", "99", *words]
    )
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    if words:
        assert "ε" in json.loads(written.getvalue())["recommended"][0]["reason"]
    else:
        assert b"Recommended at ? = 1: " in written.getvalue()
