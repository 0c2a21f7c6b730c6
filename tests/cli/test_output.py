"""Tables and paragraphs of the command line: they fit the width, and folding loses no word."""

import pytest

from dplangevin.cli import output


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_paragraph_is_wrapped_and_a_path_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/".join(["folder"] * 20)
    output.line(f"  Files are in {path} and nowhere else", indent=4)
    lines = printed(capsys)
    assert lines[0] == "  Files are in"
    assert lines[1:] == [f"    {path}", "    and nowhere else"]


def test_a_table_aligns_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(
        ["name", "number", "status"], [["a  long\nname", "1,234.5", "x"], ["b", "", "y"]], left=(0, 2)
    )
    assert printed(capsys) == [
        "name          number  status",
        "a long name  1,234.5  x",
        "b                     y",
    ]
