"""What `vary` of an experiment can name, which points there are, and what they are computed on."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import swept
import toy
from omegaconf import DictConfig, OmegaConf

from dplangevin.data import Dataset
from dplangevin.data.splits import subset
from dplangevin.pipeline import config, sweep
from dplangevin.pipeline.plan import grid, runs, tasks, tasks_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/pipeline.md").read_text()


def varied(vary: dict[str, Any], *methods: str) -> DictConfig:
    cfg = toy.config(*(methods or ("objpert",)))
    cfg.experiment.toy.update(
        {"scalings": ["unit"], "vary": vary, "epsilons": {"rows": [1.0]}, "datasets": ["rows"]}
    )
    return cfg


def variants(cfg: DictConfig) -> list[str]:
    return [task.variant for task in tasks(cfg, "toy", "rows")]


def swept_on(cfg: DictConfig, data: Path) -> dict[str, pd.DataFrame]:
    return swept.experiment(cfg, "toy", "rows", data, data.parent / "units")


def test_lists_and_grids() -> None:
    fields = {"clip": [0.3, 1], "sampling": {"batch": [50, 100, 200]}, "step": [0.1, 0.2, 0.3]}
    points = list(grid(fields))
    assert points[0] == {"clip": 0.3, "sampling.batch": 50, "step": 0.1}
    assert [point["sampling.batch"] for point in points[::3]] == [50, 100, 200] * 2
    assert [point["step"] for point in points[:3]] == [0.1, 0.2, 0.3]
    assert list(grid({})) == [{}]
    dotted = list(grid({"clip": [0.3, 1], "sampling.batch": [50, 100, 200], "step": [0.1, 0.2, 0.3]}))
    assert dotted == points
    cfg = varied({"objpert": {"ridge": [1.0, 2.0]}, "problem": {"logistic": {"loss": ["logistic", "huber"]}}})
    assert variants(cfg) == [
        f"ridge={r};problem.loss={loss}" for loss in ("logistic", "huber") for r in (1.0, 2.0)
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3.0, "vary: ridge = 3.0 must be a list of values"),
        ([], "must be a list of values"),
        ({"from": 1, "to": 5}, "vary: ridge.from = 1 must be a list"),
        ([1.0, 1.0], "two points of run objpert that are called ridge=1.0"),
    ],
)
def test_what_names_no_values_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        variants(varied({"objpert": {"ridge": given}}))


def test_fields_of_a_method_a_problem_and_a_data_set_reach_what_is_computed(tmp_path: Path) -> None:
    """Each point has the rows of an experiment that has its values."""
    data = toy.write(tmp_path)
    problem = {
        "logistic": {
            "loss": [
                {"_target_": "dplangevin.problems.losses.huber", "threshold": 0.5, "label_bound": 1.0},
                "logistic",
            ]
        }
    }
    fields = {"rows": {"train_rows": [60, 150], "held_out": [0.25]}}
    cfg = varied({"objpert": {"ridge": [0.1, 5.0]}, "problem": problem, "dataset": fields})
    found = swept_on(cfg, data)
    table = found["runs"].set_index("variant")
    assert len(table) == 8
    assert table.records.to_dict() == {name: 60 if "rows=60" in name else 150 for name in table.index}
    assert table.assumptions.str.contains("scored on 0.25 of the training rows, held out").all()
    name = "ridge=5.0;problem.loss=huber;dataset.train_rows=60;dataset.held_out=0.25"
    alone = varied({}, "objpert")
    alone.method.objpert.ridge, alone.problem.logistic.loss = 5.0, problem["logistic"]["loss"][0]
    alone.dataset.rows.update({"train_rows": 60, "held_out": 0.25})
    own = swept.experiment(alone, "toy", "rows", data, tmp_path / "alone")["scores"].value
    scores = found["scores"][found["scores"].variant.eq(name)].value
    assert scores.to_numpy() == pytest.approx(own.to_numpy(), rel=1e-12)
    others = {tuple(rows.value) for _, rows in found["scores"].groupby("variant")}
    assert len(others) == 8


def test_held_out_rows_are_training_rows_and_no_others(rng: np.random.Generator) -> None:
    """Nested in the number of rows, drawn in each repeat, the test rows never looked at."""
    x = np.arange(2 * 100.0).reshape(2, 100, 1)
    data = Dataset(x, np.where(x[..., 0] % 2 > 0, 1.0, -1.0), -x[:, :7], np.ones((2, 7)), {})
    seen = [subset(data, n, 0.2, np.random.default_rng(0)) for n in (None, 60, 10)]
    assert [(each.n, each.x_test.shape[1]) for each in seen] == [(80, 20), (60, 20), (10, 20)]
    for repeat in range(2):
        train, tested = (set(each[repeat, :, 0]) for each in (seen[0].x_train, seen[0].x_test))
        assert train | tested == set(x[repeat, :, 0])
        assert not train & tested
        assert set(seen[2].x_train[repeat, :, 0]) < set(seen[1].x_train[repeat, :, 0]) < train
        assert seen[2].x_test[repeat].tolist() == seen[0].x_test[repeat].tolist()
        assert sorted(tested) != list(x[repeat, -20:, 0])
    assert (seen[0].y_test[..., None] == np.where(seen[0].x_test % 2 > 0, 1.0, -1.0)).all()
    all_of_them = subset(data, 30, None, np.random.default_rng(0))
    assert all_of_them.x_test.tolist() == data.x_test.tolist()
    for n, share in ((81, 0.2), (101, None)):
        with pytest.raises(ValueError, match=rf"train_rows = {n}, .*: need so many of the"):
            subset(data, n, share, rng)
    with pytest.raises(ValueError, match="a row in each part"):
        subset(data, None, 0.001, rng)


def test_only_new_points_are_computed_and_a_sweep_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, computed = toy.write(tmp_path), list[str]()
    compute = sweep.SweepTasks.compute

    def watched(self: Any, job: Any) -> Any:
        computed.extend(self.tasks[i].variant for i in job.group)
        if len(computed) == 3:
            raise KeyboardInterrupt
        return compute(self, job)

    monkeypatch.setattr(sweep.SweepTasks, "compute", watched)
    with pytest.raises(KeyboardInterrupt):  # as from a user, in the third point
        swept_on(varied({"dataset": {"rows": {"train_rows": [50, 100, 150, 200]}}}), data)
    swept_on(varied({"dataset": {"rows": {"train_rows": [50, 100, 150, 200]}}}), data)
    assert computed[3:] == ["dataset.train_rows=150", "dataset.train_rows=200"]
    found = swept_on(varied({"dataset": {"rows": {"train_rows": [50, 71, 100, 141, 200]}}}), data)
    assert computed[5:] == ["dataset.train_rows=71", "dataset.train_rows=141"]
    assert found["runs"].records.tolist() == [50, 71, 100, 141, 200]


def test_what_is_compared_with_the_posterior_has_all_rows(tmp_path: Path) -> None:
    cfg = varied({"dataset": {"rows": {"train_rows": [50]}}})
    data = toy.write(tmp_path)
    with pytest.raises(
        ValueError, match="compared with the exact posterior on all rows: set compared: false"
    ):
        swept.experiment(cfg, "toy", "rows", data, tmp_path / "units", posterior=data)


@pytest.mark.slow
def test_a_sweep_is_a_file_that_inherits_an_experiment(tmp_path: Path) -> None:
    """Five lines in conf/experiment, chosen by name; and a field that no file varies, from the command line."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    (text, *_) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert text.count("\n") == 5
    (tmp_path / "conf/experiment/mine.yaml").write_text(text)
    adding = "+experiment.sweep.vary.dpvi.clip=[0.5,1.0]"
    cfg = config.compose(["experiment@experiment.sweep=mine", adding], tmp_path / "conf")
    config.check_values(cfg)
    stage = cfg.pipeline.run_stages.sweep
    assert (stage.experiment, stage.dataset, stage.needs) == ("sweep", "abalone", "dataset/abalone")
    spec = cfg.experiment.sweep
    assert spec.settings == cfg.experiment.compare.settings
    there = {run.name: list(tasks_of(cfg, "sweep", run, "abalone")) for run in runs(cfg, "sweep", "abalone")}
    assert {name: len(points) for name, points in there.items()} == {"dpvi": 12, "dp_sgd": 12, "pate": 1}
    assert there["dpvi"][1].variant == "sampling.batch=20;clip=1.0"
    batches = [point.config["sampling"]["batch"] for point in there["dp_sgd"]]
    assert batches[::2] == [20, 40, 80, 160, 320, 640]
    spec.vary = {"dpvi": {"clip": None}, "dp_sgld": None}
    assert len(list(tasks_of(cfg, "sweep", runs(cfg, "sweep", "abalone")[0], "abalone"))) == 1
    config.check_values(cfg)  # null takes out what is inherited
    OmegaConf.set_struct(cfg, False)
    cfg.experiment.sweep["varry"] = {"dpvi": {"clip": [1.0]}}
    with pytest.raises(
        config.ConfigError,
        match=r"experiment\.sweep\.varry: Extra inputs are not permitted; did you mean vary",
    ):
        config.check_values(cfg)
