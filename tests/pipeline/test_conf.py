import sys
from pathlib import Path

import pytest
from checkout import ROOT, run
from composed import composed
from omegaconf import DictConfig, OmegaConf
from quick import sample

from dplangevin.pipeline import config

CONF = ROOT / "conf"
SCALES = sorted(path.stem for path in (CONF / "scale").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def cfg() -> DictConfig:
    return composed()


def test_params_are_in_step_with_conf(cfg: DictConfig) -> None:
    assert OmegaConf.to_yaml(cfg) == (ROOT / "params.yaml").read_text()


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
    assert not part.exists() or OmegaConf.merge(cfg, OmegaConf.load(part)) == cfg
    assert {scale for scale, _ in PARTS} == set(SCALES)
    config.check_values(cfg)
    assert cfg.pipeline.run_stages.keys() == cfg.pipeline.runs.keys()  # or a figure lacks a result


def test_stages_are_found_in_the_groups(cfg: DictConfig) -> None:
    """A run needs the manifest of all that it reads; what only a pipeline adds has no stage elsewhere."""
    runs, exhibits, svhn = cfg.pipeline.runs, cfg.pipeline.exhibits, composed("pipeline=svhn")
    for key, needs in (
        ("wang2015-adult", "dataset/adult"),
        ("compare-adult", "reference/adult"),
        ("ryffel2022_code-cifar10_alexnet", "features/cifar10_alexnet"),
        ("ryffel2022_tab3_resnet18-cifar10", "features/cifar10_resnet18"),  # which needs its weights, too
    ):
        name, _, dataset = key.partition("-")
        assert runs[key] == {"experiment": name, "dataset": dataset, "needs": needs}
    assert runs.sweep.dataset == cfg.experiment.sweep.datasets[0]
    assert cfg.pipeline.analyses.privacy_claims == "conf/promise/privacy_claims.yaml"
    folders = ["results/runs/ryffel2022_tab3", *["results/runs/ryffel2022_tab3_resnet18"] * (config.READ - 1)]
    assert exhibits.ryffel2022_tab3 == folders
    assert {*svhn.pipeline.datasets} - {*cfg.pipeline.datasets} == {"svhn"}
    assert svhn.pipeline.runs.keys() - runs.keys() == {"li2019_tab1_svhn-svhn"}
    assert svhn.pipeline.exhibits.keys() - exhibits.keys() == {"li2019_tab1_svhn"}
    assert {*cfg.pipeline.papers} == {path.stem for path in (CONF / "claim").glob("*.yaml")}


def test_content_is_resolved_in_the_parameters_and_the_files_beside_it(
    tmp_path: Path, cfg: DictConfig
) -> None:
    (tmp_path / "exhibit").mkdir()
    (tmp_path / "exhibit/a.yaml").write_text("budget: ${delta}\nsame: ${exhibit.b.draw}\n")
    (tmp_path / "exhibit/b.yaml").write_text("draw:\n  title: ${exhibit.c.title}\n")
    (tmp_path / "exhibit/c.yaml").write_text("title: t\n")
    assert config.content("exhibit", "a", cfg, tmp_path) == {"budget": 1e-5, "same": {"title": "t"}}
    (tmp_path / "exhibit/c.yaml").write_text("title: ${nowhere}\n")
    with pytest.raises(config.ConfigError, match=r"a\.yaml: .*nowhere"):
        config.content("exhibit", "a", cfg, tmp_path)
    with pytest.raises(
        config.ConfigError, match=r"no exhibit .* is named 'wang2015_fig1'; did you mean wang2015_fig1"
    ):
        config.content("exhibit", "wang2015_fig1", cfg)


@pytest.mark.parametrize(
    ("override", "named"),
    sample(
        [
            ("method.ops.radiu=3", "Key 'radiu' is not in struct full_key: method.ops.radiu"),
            ("scale=huge", "'scale/huge' Available options in 'scale': laptop paper smoke"),
            ("method.ops.radius=[", "with method.ops.radius=[: no viable alternative at input '['"),
            ("method.ops.radius=${nowhere}", "Interpolation key 'nowhere' not"),
        ],
        lambda override, named: override == "method.ops.radius=[",
    ),
)
def test_bad_overrides_name_the_fault_in_one_line(override: str, named: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        config.compose([override])
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_check_says_how_to_compose_anew(
    cfg: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conf").symlink_to(CONF)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "compose", lambda overrides: composed(*overrides))
    changed = cfg.copy()
    OmegaConf.set_readonly(changed, False)
    changed.method.outpert.l2 = 3
    Path("params.yaml").write_text(OmegaConf.to_yaml(changed))
    assert config.main(["--check"]) == 1
    assert "python -m dplangevin.pipeline.config" in capsys.readouterr().err
    for name, value in (("DVC_EXP_NAME", "an-experiment"), ("DPL_SET", "method.outpert.l2=3")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert config.main(["--check"]) == 0
