"""What `make help` and the summary of `make repro` print."""

import subprocess
from pathlib import Path

import pytest
import summary

ROOT = Path(__file__).parents[2]


def test_help_fits_80_columns_and_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    (phony,) = (line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY:"))
    listed = [line.split()[1] for line in lines if line.startswith("make ")]
    assert sorted(listed) == sorted(phony.split()[1:])
    assert not any("|" in line for line in lines)


def printed(ended: dict[str, int], capsys: pytest.CaptureFixture[str], log: Path) -> list[str]:
    stages = "".join(f"{stage} {status}\n" for stage, status in ended.items())
    (log / "stages").write_text(stages)
    summary.report(log, 0, ["wang2015_fig1b", "wang2015_fig1c"])
    return capsys.readouterr().out.splitlines()


def test_the_summary_ends_with_what_is_committed_and_how_to_compute_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    lines = printed({}, capsys, tmp_path)
    assert lines[-1].strip() == "make exhibit ID=wang2015_fig1b FORCE=1"
    text = " ".join(" ".join(lines).split())
    assert (
        "Exhibits: 2 up to date, 0 made now, 0 not made. No stage ran, because nothing that results/" in text
    )
    assert max(map(len, lines)) <= 80
    lines = printed({"render@wang2015_fig1b": 0, "render@wang2015_fig1c": 1}, capsys, tmp_path)
    assert "Exhibits: 0 up to date, 1 made now, 1 not made." in lines
    assert "No stage ran" not in " ".join(lines)


def test_verdicts_in_the_summary_are_marks_by_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    lines = printed({}, capsys, tmp_path)
    counts = lines[lines.index("  wang2015_fig1b: up to date") + 2].strip()
    assert [text.split()[0] for text in counts.split(", ")] == ["paper", "reading", "ours"]
