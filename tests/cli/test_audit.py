"""`dplangevin audit`: verdict and exit status, output, files, and one line for bad input."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from dplangevin.attacks.learners import script
from dplangevin.cli import app

TESTS = Path(__file__).parents[1]
FAULTY = "attacks.faulty_learners"
BASE = [f"{FAULTY}:AverageOfFits", "--claims", "1.0,0", "--runs", "100"]


def audit(*words: str) -> Result:
    return CliRunner().invoke(app, ["audit", *words])


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(TESTS))
    monkeypatch.chdir(tmp_path)


def test_a_violation_has_a_table_a_program_files_and_status_1(tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    (tmp_path / "found/show.py").write_text(f"# of an earlier audit\n{script.LAST}")
    done = audit(*BASE, "--args", "epsilon=1.0", "--out", "found")
    assert done.exit_code == 1
    table, _, program = done.stdout.partition("This program shows it without dplangevin:\n")
    assert max(map(len, table.splitlines())) <= 80
    assert "VIOLATED: epsilon is at least" in table
    assert (tmp_path / "found/show.py").read_text() == program
    assert "AverageOfFits(epsilon=1.0, random_state=seed)" in program
    first, second = (pd.read_csv(tmp_path / "found" / name) for name in ("first.csv", "second.csv"))
    assert (first.iloc[1:] == second.iloc[1:]).all(axis=None)
    assert (first.iloc[0] != second.iloc[0]).any()


@pytest.mark.slow
def test_a_claim_that_holds_is_not_accused() -> None:
    done = audit(*BASE, "--args", "epsilon=0.01")
    assert done.exit_code == 0
    assert "No violation found" in done.stdout
    assert "which does not prove the claim" in done.stdout
    assert re.findall(r"To see an epsilon of ([\d.]+) takes", done.stdout) == ["1.5", "2", "4"]


def test_pairs_are_skipped_and_lowest_bits_count_if_asked() -> None:
    words = [*BASE, "--skip", "outlier, absent class,duplicate,alone,among", "--floats"]
    done = audit(*words).stdout
    named = re.findall(r"^(\w.*?)  +[\d.]+  [\d.]+ ", done, re.MULTILINE)
    assert {each.removeprefix("by new runs: ") for each in named} == {"flipped label"}
    assert done.endswith("--out FOLDER writes a program that shows it without dplangevin.\n")
    assert "800 fits; 100 on each table" in done


def test_rows_of_a_csv_and_a_training_function(tmp_path: Path, rng: np.random.Generator) -> None:
    frame = pd.DataFrame(rng.uniform(-0.5, 0.5, (20, 2)), columns=["a", "b"])
    frame.assign(label=["x", "y"] * 10).to_csv(tmp_path / "my.csv", index=False)
    text = "from functools import partial\ndef fit(axis, table, seed):\n    return table.X.max(axis)\n"
    (tmp_path / "training_of_mine.py").write_text(f"{text}train = partial(fit, 0)\n")
    words = ["--train", "training_of_mine:train", "--data", "my.csv", "--target", "label"]
    done = audit(*words, "--claims", "1,0", "--runs", "100", "--neighbours", "add_remove", "--out", "found")
    assert done.exit_code == 1, done.output
    assert "no noise: parameters[0] is " in done.stdout
    assert "from training_of_mine import train;" in done.stdout


@pytest.mark.parametrize("rows", [6, 20])
def test_labels_may_be_texts_and_never_seen(rows: int, tmp_path: Path) -> None:
    lines = [f"{i / 40},{'xy'[i % 2]}" for i in range(rows)]
    (tmp_path / "my.csv").write_text("\n".join(["a,label", *lines, ""]))
    words = ["--data", "my.csv", "--target", "label", "--any-row"]
    (tmp_path / "largest_row.py").write_text("def train(table, seed):\n    return table.X.max(0)\n")
    done = audit("--train", "largest_row:train", *BASE[1:], *words)
    assert done.exit_code in (0, 1), done.stderr
    assert "Not tried" not in done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("full_disk")
def test_what_cannot_be_written_is_printed() -> None:
    done = audit(*BASE, "--args", "epsilon=1.0", "--out", "found")
    assert done.exit_code == 2
    assert "VIOLATED: epsilon is at least" in done.stdout
    assert "found/show.py: No space left on device: free some space" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--claims", "1,0"], "give module:Class or --train module:function, and not both"),
        ([f"{FAULTY}:Nope", "--claims", "1,0"], "has no attribute 'Nope'"),
        (
            ["Thing", "--claims", "1,0"],
            "cannot import 'Thing' (ModuleNotFoundError: No module named 'Thing'): need module:Class",
        ),
        ([f"{FAULTY}:CLIP", "--claims", "1,0"], "'float' object is not callable"),
        ([BASE[0], "--claims", "1"], "--claims '1' must be epsilon,delta"),
        ([BASE[0], "--claims", "inf,0"], "epsilon inf cannot be violated"),
        ([BASE[0], "--claims", "-1,0"], "epsilon = -1.0 must be in (0, inf]"),
        ([*BASE, "--args", "1.0"], "--args '1.0' must be name=value"),
        ([*BASE, "--args", "eps=1"], "unexpected keyword argument 'eps'"),
        ([*BASE, "--data", "my.csv", "--target", "y"], "my.csv: No such file"),
        ([*BASE, "--out", "taken"], "--out taken is a file: name a folder"),
        ([*BASE, "--out", "."], "--out . has a file that is of no audit, first.csv"),
        ([*BASE, "--data", "texts.csv", "--target", "a"], "column 'b' of texts.csv has text"),
        ([*BASE, "--data", "texts.csv", "--target", "c"], "--target 'c': texts.csv has the columns a, b"),
        (
            [*BASE, "--data", "gap.csv", "--target", "b"],
            "gap.csv, column 'b': a missing label: remove",
        ),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("taken", "first.csv", "show.py"):
        Path(name).write_text("of the user")
    Path("texts.csv").write_text("a,b\n1,u\n2,v\n3,u\n")
    Path("gap.csv").write_text("a,b\n.1,0\n.2,\n.3,1\n")
    with pytest.raises(SystemExit) as stop:
        app(["audit", *words])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert message in error
    assert error.count("\n") == 1
