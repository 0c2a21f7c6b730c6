import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import repro
from checkout import run
from composed import composed
from omegaconf import DictConfig, OmegaConf
from quick import sample

from dplangevin.pipeline import config, manifest

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
PIPELINES = sorted(path.stem for path in (CONF / "pipeline").glob("*.yaml"))
SCALES = sorted(path.stem for path in (CONF / "scale").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def cfg() -> DictConfig:
    return composed()


@pytest.fixture
def conf_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without overrides: messages about overrides compare with it."""
    real, without = config._compose, composed()
    monkeypatch.setattr(config, "_compose", lambda given, at: real(given, at) if given else without)


def with_pipeline(name: str) -> DictConfig:
    return composed() if name == "default" else composed(f"pipeline={name}")


def test_params_are_in_step_with_conf(cfg: DictConfig) -> None:
    config.check(cfg, ROOT / "params.yaml")


@pytest.mark.slow
def test_composition_is_the_one_of_dvc(tmp_path: Path) -> None:
    """In a process of its own, which has loaded the plugins of pipelines/ as DVC does."""
    overrides = ["method.ops.radius=3", "scale=smoke"]
    path = tmp_path / "params.yaml"
    given = (str(path), str(CONF), None, "config", "pipelines", overrides)
    code = f"from dvc.utils.hydra import compose_and_dump; compose_and_dump(*{given})"
    done = run(ROOT, sys.executable, "-c", code, PYTHONPATH="src")
    assert done.returncode == 0, done.stderr
    assert OmegaConf.to_yaml(composed(*overrides)) == path.read_text()


PARTS = {tuple(path.stem.split("_")) for path in (CONF / "scale/pipeline").glob("*.yaml")}


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "pipeline"), sorted(PARTS))
def test_every_scale_composes_and_has_its_part_for_what_a_pipeline_adds(scale: str, pipeline: str) -> None:
    cfg = composed(f"scale={scale}", f"pipeline={pipeline}")
    assert cfg.scale == scale
    part = CONF / f"scale/pipeline/{scale}_{pipeline}.yaml"
    wanted = config.flatten(OmegaConf.load(part)) if part.exists() else {}
    assert wanted.items() <= {**config.flatten(cfg)}.items()
    assert {scale for scale, _ in PARTS} == set(SCALES)
    config.check_values(cfg)


def stems(kind: str) -> list[str]:
    return sorted(path.stem for path in (CONF / kind).glob("*.yaml"))


@pytest.mark.parametrize("choice", sample(PIPELINES, lambda choice: choice == "default"))
def test_the_pipeline_has_a_stage_for_all_that_there_is(choice: str) -> None:
    cfg = with_pipeline(choice)
    wanted = {f"{name}-{dataset}" for name, spec in cfg.experiment.items() for dataset in spec.datasets}
    assert {f"{run.experiment}-{run.dataset}" for run in cfg.pipeline.runs.values()} == wanted
    assert set(cfg.pipeline.runs) == {*wanted, "sweep"} - {"sweep-abalone"}  # whatever it is swept on
    assert set(cfg.pipeline.datasets) == set(cfg.dataset)
    assert set(cfg.pipeline.weights) == set(cfg.weights)
    assert set(cfg.pipeline.pretrain) == set(cfg.pretrain)
    assert {entry.name for entry in cfg.pipeline.features.values()} == set(cfg.features)
    for name, entry in cfg.pipeline.features.items():
        assert manifest.stage_of(cfg, "features", entry.name) == f"features@{name}"
        assert entry.weights == cfg.features[entry.name].backbone
        assert entry.weights in (*cfg.pipeline.weights, *cfg.pipeline.pretrain)
    assert set(cfg.pipeline.analyses) == set(cfg.analysis)
    assert set(cfg.pipeline.papers) == set(stems("claim"))
    assert set(stems("exhibit")) - {*cfg.pipeline.exhibits} == {"li2019_tab1_svhn"} - {*cfg.pipeline.exhibits}
    for path in cfg.pipeline.analyses.values():
        assert Path(path).exists()


def test_content_is_resolved_in_the_parameters_and_the_files_beside_it(
    tmp_path: Path, cfg: DictConfig
) -> None:
    (tmp_path / "exhibit").mkdir()
    (tmp_path / "exhibit/a.yaml").write_text("budget: ${delta}\nsame: ${exhibit.b.draw}\n")
    (tmp_path / "exhibit/b.yaml").write_text("draw:\n  title: ${exhibit.c.title}\n")
    (tmp_path / "exhibit/c.yaml").write_text("title: t\n")
    assert config.content("exhibit", "a", cfg, tmp_path) == {"budget": 1e-5, "same": {"title": "t"}}
    (tmp_path / "exhibit/on.yaml").write_text("marks: [{on: features, method: sgd}]\n")
    with pytest.raises(config.ConfigError, match=r"on\.yaml, line 1: YAML reads the key on"):
        config.content("exhibit", "on", cfg, tmp_path)
    (tmp_path / "exhibit/c.yaml").write_text("title: ${nowhere}\n")
    with pytest.raises(config.ConfigError, match=r"a\.yaml: .*nowhere"):
        config.content("exhibit", "a", cfg, tmp_path)
    with pytest.raises(config.ConfigError, match=r"no exhibit 'wang2015_fig1'; did you mean wang2015_fig1"):
        config.content("exhibit", "wang2015_fig1", cfg)


@pytest.mark.usefixtures("conf_composed_once")
@pytest.mark.parametrize(
    ("override", "named"),
    sample(
        [
            ("method.ops.radiu=3", "conf/ has no method.ops.radiu; did you mean radius?"),
            ("scal=smoke", "conf/ has no scal; did you mean scale?"),
            (
                "scale=huge",
                "scale=huge: In 'config': Could not find 'scale/huge'; there are laptop, paper, smoke",
            ),
            ("experiment@experiment.sweep=swep", "'experiment/swep'; did you mean sweep?; there are comp"),
            (
                "method.ops.radius=[",
                "method.ops.radius=[: write KEY=VALUE, such as method.ops.radius=3, and close",
            ),
            ("method.ops.radius", "write KEY=VALUE"),
            ("method.ops.radius=${nowhere}", "method.ops.radius=${nowhere}: Interpolation key 'nowhere' not"),
            ("method.ops.radius=???", "method.ops.radius: set it in conf/ or as an override"),
            ("~method.ops.radiu", "conf/ has no method.ops.radiu; did you mean radius?"),
            ("+method.ops.radius=3", "conf/ has method.ops.radius already: leave out the +"),
            (
                "method.ops=3",
                "conf/ has a mapping at method.ops, not one value: set a key of it, such as method.ops.bound",
            ),
            (
                "experiment.sweep.vary.ops.radius={from:1}",
                "conf/ has a list at experiment.sweep.vary.ops.radius, not a mapping: replace it by the two ~exp",
            ),
        ],
        lambda override, named: override in ("method.ops.radiu=3", "method.ops.radius=["),
    ),
)
def test_bad_overrides_name_the_fault_in_one_line(override: str, named: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        config.compose([override])
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_files_of_groups_stand_under_their_names_and_can_be_replaced(tmp_path: Path) -> None:
    """Whether they have defaults or not; a changed file is read again."""
    method = tmp_path / "method"
    method.mkdir()
    (tmp_path / "config.yaml").write_text("defaults: [_self_, all, scale: small]\ntwo: 2\n")
    (tmp_path / "scale").mkdir()
    (tmp_path / "scale/small.yaml").write_text("# @package _global_\ntwo: 2\n")
    (method / "a.yaml").write_text("x: 1\ny: ${two}\n")
    (method / "b.yaml").write_text("defaults: [a]\nx: 1e-3\n")
    (method / "d.yaml").write_text("x: 4\n")
    a, b, d = {"x": 1, "y": 2}, {"x": 1e-3, "y": 2}, {"x": 4}
    for overrides, methods in (
        ([], {"a": a, "b": b, "d": d}),
        (["method@method.a=d"], {"a": d, "b": b, "d": d}),
        (["method@method.b=d"], {"a": a, "b": d, "d": d}),
        (["~method@method.d"], {"a": a, "b": b}),
        (["+method@method.e=a"], {"a": a, "b": b, "d": d, "e": a}),
    ):
        cfg: Any = OmegaConf.to_container(config.compose(overrides, tmp_path))
        assert cfg == {"two": 2, "method": methods}
        assert list(cfg["method"]) == list(methods)
    (method / "d.yaml").write_text("x: 5\n")
    assert config.compose(conf=tmp_path).method.d.x == 5
    (method / "d.yaml").write_text("x: 5\ny: ${two\n")
    with pytest.raises(config.ConfigError, match="two"):
        config.compose(conf=tmp_path)


@pytest.mark.slow
def test_write_only_what_changed(tmp_path: Path, cfg: DictConfig) -> None:
    path = tmp_path / "params.yaml"
    assert config.write(cfg, path)
    assert not config.write(cfg, path)
    assert config.load(path) == cfg
    assert isinstance(config.load(path).delta, float)
    assert [entry.name for entry in tmp_path.iterdir()] == ["params.yaml"]


def test_no_params(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match=r"python -m dplangevin\.pipeline\.config"):
        config.load(tmp_path / "params.yaml")


@pytest.fixture
def check(cfg: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`python -m dplangevin.pipeline.config --check` where params.yaml has another value at a key; its exit status."""
    (tmp_path / "conf").symlink_to(CONF)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "compose", lambda overrides: composed(*overrides))

    def status(key: str, value: object, **env: str) -> int:
        changed = cfg.copy()
        OmegaConf.set_readonly(changed, False)
        OmegaConf.update(changed, key, value, force_add=True)
        config.write(changed)
        with monkeypatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            return config.main(["--check"])

    return status


@pytest.mark.slow
def test_check_names_the_keys_and_the_fix(
    check: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("method.outpert.l2", 3) == 1
    said = capsys.readouterr().err
    assert "method.outpert.l2: 3 -> 0.01" in said
    assert "python -m dplangevin.pipeline.config" in said
    assert check("method.outpert.l2", 3, DVC_EXP_NAME="an-experiment") == 0
    assert check("method.outpert.l2", 3, DPL_SET="method.outpert.l2=3") == 0


def test_overrides_with_spaces_reach_the_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they were given to `make repro`: stage config composes with them."""
    (tmp_path / "params.yaml").write_text("pipeline: {exhibits: []}\n")
    monkeypatch.chdir(tmp_path)
    overrides, seen = ["experiment.sweep.seeds=[1, 2]", "+note='a b'", "scale=smoke"], list[str]()

    def spawned(command: Sequence[str], env: dict[str, str], process_group: int) -> Any:
        seen.extend(shlex.split(env["DPL_SET"]))
        return Namespace(wait=lambda: 0)

    monkeypatch.setattr(repro.subprocess, "Popen", spawned)
    monkeypatch.setattr(repro.summary, "report", lambda *_, **__: 0)
    given = Namespace(exhibit=None, force=False, strict=False, overrides=overrides)
    assert repro.reproduce(given) == 0
    assert seen == overrides
