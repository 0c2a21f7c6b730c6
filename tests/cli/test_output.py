"""Tables and paragraphs of the command line: they fit the width, and folding loses no word."""

import pytest

from dplangevin.cli import output
from dplangevin.cli.compare_page import _scores

COLUMNS = (
    output.Column("name"),
    output.Column("number", number=True),
    output.Column("file", whole=True),
    output.Column("reason"),
)
ROWS = [
    ["a name of some words", "1,234.5", "results/exhibits/x.png", "a reason that is too long for " * 4],
    ["short", "0.1", "y.png", "none"],
]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("budgets", "headers"), [(2, 1), (3, 1), (5, 2)])
def test_no_score_is_folded_whatever_the_budgets(
    budgets: int, headers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    _scores(["0.1"] * budgets, [["Always the largest class", *["0.682* ±0.154"] * budgets]])
    lines = printed(capsys)
    assert max(map(len, lines)) <= 80
    assert len(lines) == 2 * headers
    assert sum(line.count("0.682* ") for line in lines) == budgets


@pytest.mark.parametrize("columns", [80, 20])
def test_a_table_in_a_pipe_is_folded_and_no_number_is_cut(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "PIPE", columns)
    output.table(COLUMNS, ROWS)
    lines = printed(capsys)
    found, words = " ".join(lines).split(), [word for row in ROWS for cell in row for word in cell.split()]
    assert {"number", "1,234.5", "0.1", "results/exhibits/x.png", "y.png"} <= set(found)
    if columns == 80:
        assert max(map(len, lines)) <= 80
        assert sorted(found) == sorted(["name", "number", "file", "reason", *words])


def test_a_paragraph_is_wrapped_and_a_path_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/".join(["folder"] * 20)
    output.line(f"  Files are in {path} and nowhere else", indent=4)
    lines = printed(capsys)
    assert lines[0] == "  Files are in"
    assert lines[1:] == [f"    {path}", "    and nowhere else"]
