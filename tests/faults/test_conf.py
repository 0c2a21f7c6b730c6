"""Broken files and wrong values: in conf/, on the command lines of make, DVC and dplangevin, in a schema."""

import copy
import itertools
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fingerprint
import pytest
from checkout import ROOT, commit, dvc, run
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from quick import sample
from typer.testing import CliRunner

from dplangevin.cli import app
from dplangevin.pipeline import config, validate
from dplangevin.pipeline.code import targets

# What is written below a sound file, or in its place: the lines further down that are named, and what is said of them
BROKEN = {
    "a stray brace": (b"x: {a: 1\ny: 2\n", (2, 3), "',' or '}'"),
    "a brace too many": (b"x: {a: 1}}\n", (1,), "expected key|block end"),
    "a tab": (b"x:\n\ty: 1\n", (2,), "cannot start any token"),
    "Latin-1": ("# fine\nx: Böhning\n".encode("latin-1"), (2,), "decode byte 0xf6"),
    "a character of no text": (b"x: 1\ny: \x01\n", (2,), "control characters|not allowed"),
    "a key twice": (b"x: 1\ny: 2\nx: 3\n", (3,), "found duplicate key x"),
    "an object of Python": (
        b"x: !!python/object/apply:os.system ['touch pwned']\n",
        (1,),
        "could not determine",
    ),
    "a merge with a number": (b"x: {<<: 3}\n", (1,), "mapping"),
    "two documents": (b"x: 1\n---\nx: 2\n", (2,), "expected a single document|but found another document"),
}
broken = pytest.mark.parametrize(("content", "lines", "what"), BROKEN.values(), ids=BROKEN)


def said(text: str, name: str, lines: tuple[int, ...], what: str) -> bool:
    """Whether file, one of the lines and what is wrong are in one sentence."""
    where = "|".join(map(str, lines))
    return re.search(rf"{re.escape(name)}, line ({where}): .*({what})", text) is not None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """conf/ and its params.yaml, to break, in the current folder."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.trial("a broken config file")
@broken
def test_a_broken_file_is_named_with_the_line(
    tmp_path: Path, content: bytes, lines: tuple[int, ...], what: str
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(b"a_sound: line\n" + content)
    with pytest.raises(config.ConfigError) as caught:
        config.values(path)
    assert said(str(caught.value), str(path), tuple(line + 1 for line in lines), what), caught.value


@pytest.mark.trial("a broken config file")
@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("scale/paper", "a stray brace"),  # not chosen, and still refused
        ("method/ops", "a merge with a number"),  # which Hydra meets
    ],
)
def test_composing_ends_with_status_1_and_writes_nothing(
    folder: Path, file: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content, lines, what = BROKEN[fault]
    path = folder / "conf" / f"{file}.yaml"
    before = path.read_text()
    path.write_bytes(before.encode() + content)
    params = (folder / "params.yaml").read_bytes()
    assert config.main(["seed=3"]) == 1
    below, error = len(before.splitlines()), capsys.readouterr().err
    assert said(error, f"conf/{file}.yaml", tuple(below + line for line in lines), what), error
    assert (folder / "params.yaml").read_bytes() == params
    assert not (folder / "pwned").exists()


@pytest.mark.slow
@pytest.mark.trial("a broken config file")
def test_a_damaged_params_yaml_is_named_by_a_stage_and_composed_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = (folder / "params.yaml").read_bytes()
    (folder / "params.yaml").write_bytes(right + b"\xe9: {\n")
    assert fingerprint.main() != 0
    error = capsys.readouterr().err
    assert said(error, "params.yaml", (right.count(b"\n") + 1,), "byte 0xe9"), error
    assert "Traceback" not in error
    assert config.main([]) == 0
    assert (folder / "params.yaml").read_bytes() == right


# Wrong values: key, value, what is said of it
WRONG: list[tuple[str, Any, str]] = [
    ("delta", "1e-5", "delta = '1e-5': Input should be a valid number"),
    ("delta", math.nan, "delta = nan: must be a number"),
    ("delta", 1.5, "delta = 1.5: Input should be less than 1"),
    ("seed", -1, "seed = -1: Input should be greater than or equal to 0"),
    ("repeats", [10], "repeats = [10]: Input should be a valid integer"),
    ("splits", 0, "splits = 0: Input should be greater than 0"),
    ("attack_runs.single", 1e6, "attack_runs.single = 1000000.0: Input should be a valid integer"),
    ("reference.sampler.chains", "4", "reference.sampler.chains = '4': Input should be a valid integer"),
    ("pipeline.papers", None, "pipeline.papers = None: Input should be a valid array"),
    ("pipeline.datasets", "adult", "pipeline.datasets = 'adult': Input should be a valid array"),
    ("method.ops.radius", -1.0, "method.ops: radius must be positive and finite, not -1.0"),
    ("method.ops.sampler.chains", 0, "method.ops.sampler: chains = 0"),
    ("method.dp_sgd.adjacency", "add", "'add': Input should be 'replace_one' or 'add_remove'"),
    ("method.dp_sgd.accountant", "tight", "method.dp_sgd.accountant = 'tight': Input should be an object"),
    ("method.dp_sgd._target_", "nowhere.X", "method.dp_sgd: No module named 'nowhere'"),
    ("method.dp_sgd.clipp", 1.0, "method.dp_sgd.clipp = 1.0: Extra inputs are not permitted; did you mean clip"),
    ("method.opss", {"radius": 3.0}, "method.opss: Input should be an object, with a _target_"),
    ("accountant.li2019.max_order", 0.5, "accountant.li2019.max_order = 0.5: Input should be a valid integer"),
    ("problem.cifar10.smoothness", "privat", "'privat': Input should be 'private' or 'public'"),
    ("problem.block.backbone", 3, "problem.block.backbone = 3: Input should be a valid string"),
    ("dataset.abalone.loader.train_share", "0.8", "loader.train_share = '0.8': Input should be a valid number"),
    ("dataset.mnist.files[0].sha256", "440f", "0.sha256 = '440f': String should match pattern '^[0-9a-f]{64}$'"),
    ("weights.resnet20_cifar100.files", None, "weights.resnet20_cifar100.files = None: Input should be a valid array"),
    ("backbone.resnet20_cifar100.classes", "100", "resnet20_cifar100.classes = '100': Input should be a valid integer"),
    ("pretrain.alexnet_cifar100.training.momentum", 1.0, "momentum must be in [0, 1)"),
    ("features.cifar10_resnet20.batch", 0, "features.cifar10_resnet20.batch = 0: Input should be greater than 0"),
    ("experiment.compare.epsilons.default.ops", [0.0], "epsilons.default.ops.0 = 0.0: Input should be greater than 0"),
    ("experiment.sweep.epsilons", None, "experiment.sweep.epsilons = None: Input should be an object"),
    ("experiment.leaderboard.epsilons.default", [], "default = []: Value should have at least 1 item"),
    ("experiment.li2019_tab1.runs.li2019_pate.epsilons", [], "li2019_pate.epsilons = []: Value should have at least 1"),
    ("experiment.li2019_tab1.runs.li2019_pate.epsilons", None, "epsilons = None: Input should be a valid"),
    ("experiment.compare.metric", True, "experiment.compare.metric = True: Extra inputs are not permitted; did you"),
    ("analysis.ryffel2022_privacy.settings.cifar10_resnet18.records", "5", "'5': Input should be a valid integer"),
]  # fmt: skip
# The same of the runs of an experiment, which are checked when all values have the right type
WRONG_RUNS: list[tuple[str, Any, str]] = [
    ("experiment.compare.settings.ops.precision", "1", "compare, run ops: method.precision = '1': Input"),
    ("experiment.wang2015_sensitivity.vary.ops.radius", [-2.0], "method: radius must be positive and finite, not -2.0"),
    ("experiment.compare.methods", ["opps"], "no method 'opps'"),
    ("experiment.sweep.settings.opps", {}, "experiment.sweep: no key of settings is named 'opps'; did you mean ops"),
    ("experiment.sweep.vary.opss", {"radius": [1.0]}, "no key of vary is named 'opss'; did you mean ops"),
    ("experiment.sweep.vary.ops.radiu", [1.0], "radiu = 1.0: Extra inputs are not permitted; did you mean radius"),
    ("experiment.sweep.vary.problem.logistics", {"loss": ["huber"]}, "named 'logistics'; did you mean logistic?"),
    ("experiment.sweep.vary.dataset.abalon", {"limit": [9]}, "named 'abalon'; did you mean abalone"),
    ("experiment.sweep.vary.dataset.abalone.train_row", [9], "train_row = 9: Extra inputs are not permitted"),
    ("experiment.sweep.vary.dataset.abalone.held_out", [1.0], "held_out = 1.0: Input should be less than 1"),
    ("experiment.compare.problem", "logistik", "no problem is named 'logistik'; did you mean logistic"),
    ("experiment.sweep.vary.dataset.adult", {"limit": [9]}, "of vary.dataset is named 'adult'; there are abalone"),
    ("experiment.ops_proven.vary.problem.cifar10", {"loss": ["huber"]}, "no key of vary.problem is named 'cifar10'"),
    ("experiment.wang2015.calibrated", "proven", "experiment.wang2015: calibrated: proven needs price_neighbours"),
]  # fmt: skip


@pytest.fixture(scope="module")
def cfg() -> DictConfig:
    return config.load(ROOT / "params.yaml")


def rounds() -> Iterator[list[tuple[str, Any, str]]]:
    """The wrong values in as few lists as have no two of one entry, because one could hide the other."""
    for wrong in (WRONG, WRONG_RUNS):
        of_entry: dict[str, list[tuple[str, Any, str]]] = {}
        for each in wrong:
            of_entry.setdefault(".".join(each[0].split(".")[:2]), []).append(each)
        for each_round in itertools.zip_longest(*of_entry.values()):
            yield [each for each in each_round if each]


@pytest.mark.trial("a wrong value")
@pytest.mark.parametrize("wrong", sample(rounds(), lambda wrong: wrong[0] == WRONG[0]))
def test_wrong_values_are_refused_with_key_value_and_domain(
    cfg: DictConfig, wrong: list[tuple[str, Any, str]]
) -> None:
    changed = copy.deepcopy(cfg)
    for key, value, _ in wrong:
        OmegaConf.update(changed, key, value, force_add=True)
    with pytest.raises(config.ConfigError) as caught:
        config.check_values(changed)
    assert [words for _, _, words in wrong if words not in str(caught.value)] == []


def test_every_group_is_checked(cfg: DictConfig) -> None:
    """The values above are of every group of params.yaml, and what is committed is right."""
    config.check_values(cfg)
    assert {str(name) for name in cfg} - {key.partition(".")[0] for key, _, _ in WRONG} == {"scale"}


def test_what_targets_take_has_annotations(cfg: DictConfig) -> None:
    """Without which nothing would be checked."""
    conf: Any = OmegaConf.to_container(cfg)
    for name in targets(conf):
        taken = validate.signature(get_object(name)).parameters.values()
        assert all(each.annotation is not each.empty for each in taken), name


@pytest.mark.trial("a wrong value")
def test_values_of_content_are_checked_where_it_is_read(folder: Path, cfg: DictConfig) -> None:
    path = folder / "conf/exhibit/compare.yaml"
    path.write_text(path.read_text().replace("epsilons: [0.1, 1.0, 10.0]", "epsilons: [0.1, '1.0', -1]"))
    with pytest.raises(config.ConfigError) as caught:
        config.content("exhibit", "compare", cfg, folder / "conf")
    assert f"{path} has values that cannot be used" in str(caught.value)
    assert "draw.epsilons.1 = '1.0': Input should be a valid number" in str(caught.value)
    assert "draw.epsilons.2 = -1: Input should be greater than 0" in str(caught.value)


# DVC and make, in a clone


@pytest.fixture
def mended(clone: Path) -> Iterator[Path]:
    """The clone, which is as it was afterwards."""
    yield clone
    run(clone, "git", "restore", ".")


@pytest.mark.slow
@pytest.mark.trial("a broken config file")
@pytest.mark.parametrize(
    "words", [("exp", "run", "-S", "method.ops.radius=3", "run@compare-abalone"), ("repro",)]
)
def test_dvc_says_which_file_is_broken(mended: Path, words: tuple[str, ...]) -> None:
    path = mended / "conf/method/ops.yaml"
    below = len(path.read_text().splitlines())
    path.write_bytes(path.read_bytes() + BROKEN["a stray brace"][0])
    commit(mended)
    done = dvc(mended, *words)
    run(mended, "git", "reset", "--quiet", "--hard", "HEAD~1")
    assert done.returncode != 0
    assert said(done.stdout + done.stderr, "conf/method/ops.yaml", (below + 2, below + 3), "',' or '}'")
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.trial("a wrong value")
@pytest.mark.parametrize(
    ("override", "words", "written"),
    [
        ("method.ops.raduis=3", "Key 'raduis' is not in struct", False),
        (
            "+method.ops.raduis=3",
            "method.ops.raduis = 3: Extra inputs are not permitted; did you mean radius",
            True,
        ),
        ("method.ops.radius=-1", "radius must be positive and finite, not -1", True),
    ],
)
def test_an_experiment_is_refused_before_it_computes(
    mended: Path, override: str, words: str, written: bool
) -> None:
    """By Hydra before it is written, or by the first stage, which says how to go back."""
    done = dvc(mended, "exp", "run", "-S", override, "run@compare-abalone")
    assert done.returncode != 0
    assert words in done.stdout + done.stderr
    assert "Running stage 'run@compare-abalone'" not in done.stdout
    assert ("git restore --staged --worktree params.yaml" in done.stderr) == written
    assert bool(run(mended, "git", "status", "--porcelain").stdout) == written


# dplangevin


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.csv").write_text("age,ward,label\n" + 30 * "20,A,ill\n70,B,well\n")
    return tmp_path


SCHEMA = """target: label
classes: [ill, well]
delimiter: ","
ranges_from_data: false
columns:
  age: {low: 0, high: 120}
  ward: {values: [A, B]}
"""


def compared(schema: bytes) -> str:
    """What `dplangevin compare` says of a schema that it refuses."""
    Path("schema.yaml").write_bytes(schema)
    words = ["compare", "my.csv", "--schema", "schema.yaml", "--methods", "objpert"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert not Path("compare-my").exists()
    return done.output


@pytest.mark.trial("a broken config file")
@broken
def test_a_broken_schema_is_named_with_the_line(
    desk: Path, content: bytes, lines: tuple[int, ...], what: str
) -> None:
    """Numbers are texts there, until they are a range."""
    below = len(SCHEMA.splitlines())
    output = compared(SCHEMA.encode() + content)
    if "unknown word 'x'" in output:
        assert any(word in what for word in ("determine", "mapping"))
        return
    assert said(output, "schema.yaml", tuple(below + line for line in lines), what), output


# conf/ is code, and data are not

CALLED = "{_target_: os.system, command: touch pwned}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[A, B]", f"[A, {CALLED}]"),
        ("[ill, well]", f"[ill, {CALLED}]"),
        ("{values: [A, B]}", CALLED),
        ("{low: 0, high: 120}", "{low: 0, high: 120, _target_: os.system, command: touch pwned}"),
        ("classes: [ill, well]", "range: {low: 0, high: 1, _target_: os.system, command: touch pwned}"),
        ("ranges_from_data: false", f"missing: {{marks: [{CALLED}]}}"),
        ("delimiter: \",\"", f"delimiter: {CALLED}"),
    ],
)  # fmt: skip
def test_a_schema_which_comes_with_data_calls_nothing(desk: Path, old: str, new: str) -> None:
    compared(SCHEMA.replace(old, new, 1).encode())
    assert not (desk / "pwned").exists()
