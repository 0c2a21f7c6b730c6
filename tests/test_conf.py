import os
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from dplangevin import config
from dplangevin.exhibits.files import run_names

ROOT = Path(__file__).parents[1]
CONF = ROOT / "conf"
GROUPS = sorted(path for path in CONF.glob("*/*.yaml") if path.parent.name != "scale")
DATA_ONLY = {
    "dataset",
    "experiment",
    "training",
    "weights",
    "pretrain",
    "features",
    "heads",
    "finetune",
    "exhibit",
    "claim",
}  # groups whose files are values, not one object


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def cfg() -> DictConfig:
    return config.compose(conf=CONF)


def targets(node: object) -> list[str]:
    """Every _target_ in a container."""
    if isinstance(node, dict):
        own = [node["_target_"]] if "_target_" in node else []
        return own + [name for value in node.values() for name in targets(value)]
    return [name for value in node for name in targets(value)] if isinstance(node, list) else []


def test_params_are_in_step_with_conf(cfg: DictConfig) -> None:
    config.check(cfg, ROOT / "params.yaml")


def test_composition_is_the_one_of_dvc(tmp_path: Path) -> None:
    from dvc.utils.hydra import compose_and_dump

    overrides = ["method.ops.radius=3", "scale=smoke"]
    compose_and_dump(str(tmp_path / "params.yaml"), str(CONF), None, "config", "", overrides)
    assert OmegaConf.to_yaml(config.compose(overrides)) == (tmp_path / "params.yaml").read_text()


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_group_file_is_mounted_under_its_name(path: Path, cfg: DictConfig) -> None:
    mounted = cfg[path.parent.name][path.stem]
    assert path.parent.name in DATA_ONLY or "_target_" in mounted


def test_every_target_exists(cfg: DictConfig) -> None:
    for name in sorted(set(targets(OmegaConf.to_container(cfg)))):
        get_object(name)


@pytest.mark.parametrize("scale", sorted(path.stem for path in (CONF / "scale").glob("*.yaml")))
def test_every_scale_composes(scale: str) -> None:
    assert config.compose([f"scale={scale}"]).scale == scale


def test_experiments_and_exhibits_name_what_exists(cfg: DictConfig) -> None:
    runs = set()
    for name, experiment in cfg.experiment.items():
        assert set(experiment.datasets) <= set(cfg.dataset)
        methods = [*experiment.methods, *experiment.get("composites", [])]
        assert set(methods) <= set(cfg.method)
        runs |= {f"{name}/{dataset}/{method}" for dataset in experiment.datasets for method in methods}
    for spec in cfg.training.values():
        assert spec.dataset in cfg.dataset
        for entry in spec.runs.values():
            assert entry.learner in cfg.learner
            assert entry.network in cfg.network
    for entry in cfg.features.values():
        assert {entry.dataset, entry.public} <= set(cfg.dataset)
        assert entry.backbone in cfg.backbone
    for spec in cfg.heads.values():
        assert spec.features in cfg.features
        assert {entry.head for entry in spec.runs.values()} <= set(cfg.head)
    for entry in cfg.finetune.values():
        assert entry.dataset in cfg.dataset
        assert entry.backbone in cfg.backbone
    for name, exhibit in cfg.exhibit.items():
        if "part" in exhibit:
            experiment = exhibit.source.removeprefix("results/training/")
            assert set(exhibit.runs) <= set(cfg.training[experiment].runs)
        elif {"heads", "finetune"} & set(exhibit):
            assert set(exhibit.get("heads", [])) <= set(cfg.heads)
            assert set(exhibit.get("finetune", [])) <= set(cfg.finetune)
        elif "files" in exhibit:
            assert set(run_names(exhibit)) <= runs
        else:
            assert exhibit.source == f"results/analyses/{name}.csv"
            assert name in cfg.analysis
    for claim in cfg.claim.values():
        assert set(claim.get("runs", [])) <= runs
        assert set(claim.get("analyses", [])) <= set(cfg.analysis)
        assert set(claim.get("training", [])) <= set(cfg.training)
        assert set(claim.get("heads", [])) <= set(cfg.heads)
        assert set(claim.get("finetune", [])) <= set(cfg.finetune)


def test_override_changes_one_value_and_what_refers_to_it(cfg: DictConfig) -> None:
    lines = config.differences(cfg, config.compose(["method.ops.radius=3"]))
    names = [f"method.{name}.radius" for name in ("hybrid.first", "hybrid_sgld.first", "ops")]
    assert [line.split(":")[0] for line in lines] == names


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("method.ops.radiu=3", "radiu"),
        ("scale=huge", "huge"),
        ("method.ops.radius=[", "method.ops.radius=["),
        ("method.ops.radius=${nowhere}", "nowhere"),
        ("method.ops.radius=???", "method.ops.radius"),
    ],
)
def test_bad_overrides_name_the_fault(override: str, named: str) -> None:
    with pytest.raises(config.ConfigError, match=r"(?s).*" + named.replace("[", r"\[")):
        config.compose([override])


def test_scale_may_not_invent_keys(tmp_path: Path) -> None:
    (tmp_path / "scale").mkdir()
    (tmp_path / "config.yaml").write_text("defaults: [_self_, {scale: small}]\nscale: ???\nrepeats: 10\n")
    (tmp_path / "scale/small.yaml").write_text("# @package _global_\nscale: small\nrepeat: 2\n")
    with pytest.raises(config.ConfigError, match=r"keys that nothing reads: repeat$"):
        config.compose(conf=tmp_path)


def test_write_only_what_changed(tmp_path: Path, cfg: DictConfig) -> None:
    path = tmp_path / "params.yaml"
    assert config.write(cfg, path)
    assert not config.write(cfg, path)
    assert config.load(path) == cfg
    assert isinstance(config.load(path).delta, float)
    assert [entry.name for entry in tmp_path.iterdir()] == ["params.yaml"]


def test_no_params(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match=r"python -m dplangevin\.config"):
        config.load(tmp_path / "params.yaml")


def run_check(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """`python -m dplangevin.config --check` as a stage runs it."""
    return subprocess.run(
        [sys.executable, "-m", "dplangevin.config", "--check"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **env},
        capture_output=True,
        text=True,
    )


def test_check_names_the_keys_and_the_fix(tmp_path: Path) -> None:
    (tmp_path / "conf").symlink_to(CONF)
    config.write(config.compose(["method.ops.radius=3"]), tmp_path / "params.yaml")
    stale = run_check(tmp_path)
    assert stale.returncode == 1
    assert "method.ops.radius: 3 -> 10.0" in stale.stderr
    assert "python -m dplangevin.config" in stale.stderr
    assert run_check(tmp_path, DVC_EXP_NAME="an-experiment").returncode == 0
