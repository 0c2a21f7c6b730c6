"""Committed results are computed again in part, and tasks whose rows would come out the same get new keys."""

import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import toy
import verify

from dplangevin.files import Checkpoint, File
from dplangevin.pipeline import sweep
from dplangevin.pipeline.cache import Store, beside, listed, listing
from dplangevin.pipeline.environment import largest
from dplangevin.samplers.chains import loop

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def made(tmp_path: Path) -> verify.Result:
    """The results of a small experiment: two methods, of 4 and 8 units."""
    cfg, data = toy.config("ops", "objpert"), toy.write(tmp_path)
    inputs = sweep.Inputs(File.at(data))
    paths = [tmp_path / f"results/{table}.csv" for table in sweep.tables(cfg.experiment.toy)]

    def compute(store: Store) -> list[str]:
        return sweep.sweep(sweep.SweepTasks(cfg, "toy", "rows", inputs, store.folder), store)

    store = Store(paths, tmp_path / "units")
    store.write(compute(store))
    runs = [rows.text.split(",")[3] for rows in listed(paths[0]).values()]
    return verify.Result(paths, runs, compute)


def edited(of: verify.Result) -> None:
    """Units as an edit of the code leaves them: under other keys."""
    for path in map(beside, of.paths):
        path.write_text(path.read_text().replace('"key": "', '"key": "0'))


@pytest.mark.slow
def test_units_get_the_keys_of_the_code_and_say_why(made: verify.Result, tmp_path: Path) -> None:
    keys, rows = list(listed(made.paths[0])), [path.read_bytes() for path in made.paths]
    found = verify.check(made, tmp_path / "two", 2)
    assert [made.kinds[found.keys.index(key)] for key in found.again] == ["ops"] * 2 + ["objpert"] * 2
    assert str(found) == "4 of 12 tasks computed again, the same bytes"
    edited(made)
    found = verify.check(made, tmp_path / "again", 1)
    assert verify.renew(made, found) == 10
    assert [path.read_bytes() for path in made.paths] == rows
    for path in made.paths:
        units = json.loads(beside(path).read_text())
        assert [unit["key"] for unit in units] == keys
        said = {unit["key"]: unit.get("renewed") for unit in units}
        wanted = "code changed since; 2 of 12 tasks computed again, the same bytes"
        assert said == {key: None if key in found.again else wanted for key in keys}
    again = Store(made.paths, tmp_path / "units")
    assert made.compute(again) == keys  # from what is there
    again.write(keys)
    assert {rows.renewed for rows in listed(made.paths[0]).values()} == {"", wanted}
    assert verify.renew(made, found._replace(again={})) == 10  # those that were computed stay so
    far, near = (verify.Move(1, 0, {"accuracy": size}) for size in (0.5, 0.25))
    for move in (far, near):  # the entry of the computation stays, and the largest move is never lost
        verify.renew(made, found._replace(move=move))
        (renewed,) = {rows.renewed for rows in listed(made.paths[0]).values()} - {""}
        assert largest(renewed) == 0.5
        assert all(re.match("2[0-9-]{9}", rows.made) for rows in listed(made.paths[0]).values())


@pytest.mark.slow
def test_rows_that_come_out_others_are_found(made: verify.Result, tmp_path: Path) -> None:
    edited(made)
    path = made.paths[1]
    there = listed(path)
    parts = [rows._replace(text=rows.text.replace(",accuracy,0.", ",accuracy,1.")) for rows in there.values()]
    path.write_text(parts[0].header + "\n" + "".join(rows.text for rows in parts))
    beside(path).write_text(listing(list(there), parts))
    found = verify.check(made, tmp_path / "again", 1)
    assert str(found).startswith("2 of 12 tasks computed again, moved by at most ")
    assert found.move.largest == {"accuracy": found.move.farthest}
    verify.renew(made, found)  # as --within asks for
    assert {rows.renewed for rows in listed(path).values()} == {f"code changed since; {found}"}
    made.kinds.pop()
    with pytest.raises(ValueError, match="does not have the 12 tasks of its plan"):
        verify.check(made, tmp_path / "again", 1)


@pytest.mark.slow
def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    def status(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["verify.py", *arguments])
        return verify.main()

    done = status("ryffel2022_counterexample")
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith("ryffel2022_counterexample: ")
    assert done == (not said.endswith("tasks computed again, the same bytes"))
    assert largest(said) < 1e-8  # not 0 on another processor
    assert status("li2019_bound") == 1
    assert "no run or analysis is named 'li2019_bound'; did you mean li2019_bounds" in capsys.readouterr().out


def test_prices_and_first_steps_are_checked_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = toy.config("dp_sgld", "objpert")
    cfg.experiment.toy.one_budget_per_task = True
    at = cfg, "toy", "rows", sweep.Inputs(File.at(toy.write(tmp_path)))
    runs, scores = (tmp_path / f"{table}.csv" for table in sweep.tables(cfg.experiment.toy))
    store = Store([runs, scores], tmp_path / "units")
    store.write(sweep.sweep(sweep.SweepTasks(*at, store.folder), store))
    work = sweep.SweepTasks(*at, tmp_path / "again")
    assert verify.prices(work, runs)[:2] == (len(work.tasks), len(work.tasks))
    ended = []
    monkeypatch.setattr(Checkpoint, "stops", True)
    monkeypatch.setattr(sweep.SweepTasks, "scores", lambda *given: ended.append(given))
    assert verify.first_steps(work, runs)[:2] == (1, 1)
    monkeypatch.setattr(loop, "grid_shift", lambda std: 1e17 * std)  # a grid as coarse as the noise
    assert verify.first_steps(work, runs).largest["norm"] > 1e-3
    assert not ended  # no chain went on
    table = pd.read_csv(runs, keep_default_na=False)
    table.loc[table.run.eq("objpert"), "epsilon_proven"] *= 1.01
    table.to_csv(runs, index=False)
    ((name, size),) = verify.prices(work, runs).largest.items()
    assert (name, size > 0.005) == ("epsilon_proven", True)
    table.assign(settings="{}").to_csv(runs, index=False)
    assert verify.prices(work, runs).largest["settings"] == float("inf")
