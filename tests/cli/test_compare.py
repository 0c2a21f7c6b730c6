"""`dplangevin compare` and `dplangevin schema`, from a table to a page."""

import html
import io
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent, NoOpDpEvent, UnsupportedDpEvent
from hydra.utils import instantiate
from omegaconf import OmegaConf
from typer.testing import CliRunner, Result

from dplangevin import random
from dplangevin.cli import app, comparison
from dplangevin.cli.compare import _check_out
from dplangevin.cli.comparison import OfPersons, split_by_person
from dplangevin.cli.options import config_of
from dplangevin.data import table_schema as schemas
from dplangevin.data.splits import Split
from dplangevin.data.table_schema import Schema
from dplangevin.files import temporary_path
from dplangevin.methods import Plan, planned
from dplangevin.methods.objpert import ObjPert
from dplangevin.methods.pricing import whole
from dplangevin.methods.registry import METHODS
from dplangevin.pipeline import sweep as sweeps
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, Loss, huber, softmax
from dplangevin.reporting import read

CHEAP = "nonprivate,objpert,outpert"
ASKED = ("mine.csv", "--schema", "schema.yaml")
MINE = """
from dplangevin.methods.objpert import ObjPert


class MyMethod(ObjPert):
    pass


class Unlucky(ObjPert):
    def release(self, problem, plans, how):
        raise RuntimeError("out of luck")


class Flat(ObjPert):
    def release(self, problem, plans, how):
        made = super().release(problem, plans, how)
        made.theta = made.theta[..., :1]
        return made


class Early(ObjPert):
    def plan(self, facts):
        return None

"""


def rows(n: int = 60, classes: int = 2) -> pd.DataFrame:
    """Rows that a hyperplane separates, with a category, a gap and a constant column."""
    rng = np.random.default_rng(3)
    found = pd.DataFrame(rng.normal(size=(n, 2)), columns=["größe", "a, b"])
    found["kind"] = np.where(found["a, b"] > 0, 'x "quoted"', "y")
    found["same"] = 1.0
    found["label"] = [f"c{k}" for k in pd.qcut(found["größe"], classes, labels=False)]
    found.loc[5, "kind"] = "NA"
    return found


def wrote(table: pd.DataFrame, target: str = "label") -> None:
    """A table and its schema, with ranges read off the rows."""
    table.to_csv("mine.csv", index=False)
    written = run("schema", "mine.csv", "--target", target, "--ranges-from-data")
    assert written.exit_code == 0, written.output
    Path("schema.yaml").write_text(written.stdout, encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    wrote(rows())
    return tmp_path


def asking(seed: int | None, out: Path = Path("none"), repeats: int = 10) -> comparison.Comparison:
    stated = Schema("label", columns={"x": {"low": 0, "high": 1}}, classes=["a", "b"])
    return comparison.Comparison(Path("m.csv"), stated, {}, {}, [1.0], 1e-5, repeats, seed, out)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


def compare(*words: str, methods: str = CHEAP) -> Result:
    more = [] if "--methods" in words else ["--methods", methods]
    return run("compare", *words, *more, "--epsilon", "1,10", "--repeats", "3", "--out", "out")


def priced_at(private: pd.DataFrame, *wanted: float) -> None:
    for method, mine in private.groupby("method"):
        assert {*wanted} <= {*mine.epsilon}, method
        for epsilon in wanted:
            assert np.abs(np.log(mine.epsilon_proven / epsilon)).min() < 5e-3, method


def test_from_a_table_to_a_page_and_on_where_it_stopped(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a secret behind the noise that nobody else reads, and that is gone in the end."""
    compute, computed = sweeps.SweepTasks.compute, list[list[int]]()
    sweep, seeds = comparison.sweep, list[int]()

    def stopped(self: sweeps.SweepTasks, job: sweeps.Job) -> Any:
        if len(computed) == 2:
            raise KeyboardInterrupt
        computed.append(job.group)
        return compute(self, job)

    def swept(work: sweeps.SweepTasks, *more: Any) -> list[str]:
        seeds.append(work.cfg.seed)
        return sweep(work, *more)

    monkeypatch.setattr(sweeps.SweepTasks, "compute", stopped)
    monkeypatch.setattr(comparison, "sweep", swept)
    assert compare(*ASKED).exit_code == 130
    assert not Path("out/runs.csv").exists()
    (secret,) = here.rglob("secret-seed")
    assert secret.stat().st_mode & 0o077 == 0
    hidden, scores = secret.read_bytes(), [*(here / "out/units").glob("*.scores.csv")]
    assert (len(hidden), len(scores)) == (64, 2)
    rows = [path.read_bytes().partition(b"\n")[2] for path in scores]
    computed[:1] = []
    done = compare(*ASKED)
    assert seeds[0] == seeds[1] >= random.LARGE
    for path in (here / "out").iterdir():
        assert hidden not in path.read_bytes()
        assert str(seeds[0]).encode() not in path.read_bytes()
    assert all(of_unit in (here / "out/scores.csv").read_bytes() for of_unit in rows)
    assert (done.exit_code, computed) == (0, [[1], [2]]), done.output
    printed = " ".join(done.output.split())
    assert done.stdout.startswith("At a proven ε of 1 ")
    assert "read off the data, not accounted" in printed
    assert max(map(len, done.stdout.splitlines())) <= 80
    found = read.read_runs(["out"], root=here)
    assert set(found.method) == set(CHEAP.split(","))
    private = found[np.isfinite(found.epsilon)]
    assert private.assumptions.str.contains("read off the data", regex=False).all()
    assert set(private.adjacency_proven) == {"replace_one"}
    priced_at(private, 1.0, 10.0)
    page = (here / "out/index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert "http" not in page.replace("http-equiv", "")
    assert "read off the data, not accounted" in page
    for text in (page, " ".join(done.output.split())):
        assert "The noise came from the system" in text
        assert "The scores are not private releases" in text
    assert OmegaConf.load("out/config.yaml").seed is None
    assert not list(here.rglob("*secret*"))


def made(*words: str) -> dict[str, bytes]:
    """The files of a complete run, and what it printed; the folder is there no more."""
    done = compare(*ASKED, *words, methods=MIXED)
    assert done.exit_code == 0, done.output
    files = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    shutil.rmtree("out")
    return {**files, "printed": " ".join(done.output.split()).encode()}


def log_losses(files: dict[str, bytes]) -> pd.Series:
    found = pd.read_csv(io.BytesIO(files["scores.csv"]))
    return found[found.metric.eq("log_loss")].set_index(["run", "epsilon", "seed"]).value


MIXED = "nonprivate,outpert,dp_sgd"  # a fit without noise, one with, a chain
PUBLISHED = "The noise follows from seed 7: whoever reads this can compute it"


@pytest.mark.slow
def test_noise_is_of_the_systems_entropy_unless_a_seed_is_given(here: Path) -> None:
    """The splits are the same whatever the noise."""
    first, second = map(log_losses, (made(), made()))
    assert first.nonprivate.equals(second.nonprivate)
    for method in ("outpert", "dp_sgd"):
        assert not set(first[method]) & set(second[method]), method
    given = made("--seed", "7")
    assert given == made("--seed", "7")
    for name in ("printed", "index.html"):
        assert PUBLISHED in given[name].decode()
        assert "system's entropy" not in html.unescape(given[name].decode())


def test_noise_is_another_on_other_rows_or_settings(here: Path) -> None:
    """Even with the same secret: a run that was interrupted may be asked for again on other rows."""
    asked = asking(None, here / "out", 2)
    cfg = OmegaConf.create({"seed": None, "delta": 1e-5})
    seed = asked.secret_seed(cfg, "rows")
    assert seed >= random.LARGE
    assert seed == asked.secret_seed(cfg, "rows")
    of_rows = asked.secret_seed(cfg, "other rows")
    of_delta = asked.secret_seed(OmegaConf.create({"delta": 0.1}), "rows")
    (here / "out/secret-seed").write_bytes(b"")  # no secret: another is drawn
    assert len({seed, of_rows, of_delta, asked.secret_seed(cfg, "rows")}) == 4
    asked.secret.unlink()
    assert not list((here / "out").iterdir())


def test_the_config_of_a_method_makes_it() -> None:
    for make in METHODS.values():
        assert instantiate(config_of(make())) == make()
    given = Stated(event=lambda: None, delta=np.sqrt(4.0))  # numpy's class alone makes 0: no noise
    assert config_of(given)["delta"] == 2.0
    cfg = asking(1).config({}, {"a": given, "b": OfPersons(given, 3)}, {"a": [1], "b": [1]}, 100).method
    assert [*cfg.a] == [*cfg.b.method] == ["_target_"]


def test_a_schema_is_written_filled_in_and_used(here: Path) -> None:
    done = run("schema", "mine.csv", "--target", "label")
    assert "as: category" in done.stdout
    Path("schema.yaml").write_text(done.stdout, encoding="utf-8")
    still = compare("mine.csv", "--schema", "schema.yaml")
    assert (still.exit_code, "???" in still.output) == (2, True)
    public = {"größe": {"low": -1, "high": 4}, "a, b": {"low": -4, "high": 4}, "same": "drop"}
    given = OmegaConf.to_container(OmegaConf.load("schema.yaml"))
    assert isinstance(given, dict)
    assert given["kinds_from_data"] is True
    missing = {"marks": ["NA", ""], "as": "midpoint"}
    given |= {"classes": ["c0", "c1"], "missing": missing, "kinds_from_data": False}
    given["columns"] = {**public, "kind": {"values": ['x "quoted"', "y"]}}
    OmegaConf.save(OmegaConf.create(given), "schema.yaml")
    done = compare("mine.csv", "--schema", "schema.yaml", "--test", "mine.csv")
    assert done.exit_code == 0, done.output
    assert "Values outside their range, clipped:" in " ".join(done.output.split())
    found = read.read_runs(["out"], root=here)
    assert not found.assumptions.str.contains("read off").any()
    assert set(found.records) == {60}
    written, asked = (Schema.of(schemas.read(Path(name)), "") for name in ("out/schema.yaml", "schema.yaml"))
    assert written == asked
    assert "clipped" not in Path("out/index.html").read_text().partition("What the guarantees")[0]


def test_what_a_killed_run_or_a_file_system_leaves_does_not_keep_the_next_one_out(tmp_path: Path) -> None:
    with temporary_path(tmp_path / "index.html") as part:
        part.touch()
        (tmp_path / ".DS_Store").touch()
        (tmp_path / ".ipynb_checkpoints").mkdir()
        _check_out(tmp_path, Path("s.yaml"))
        (tmp_path / "notes.txt").touch()
        with pytest.raises(ValueError, match=r"of no comparison, notes\.txt"):
            _check_out(tmp_path, Path("s.yaml"))
        with pytest.raises(ValueError, match=r"has the schema s\.yaml, which results would replace"):
            _check_out(tmp_path, tmp_path / "s.yaml")
    (tmp_path / "config.yaml").write_text("seed: 1\nexperiment:\n  compare:\n    methods: []\n")
    _check_out(tmp_path, Path("s.yaml"))


@pytest.mark.slow
def test_nothing_of_a_table_is_carried_out(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and texts that OmegaConf, YAML, HTML, rich or a shell would act on are shown as they are."""
    monkeypatch.setenv("SECRET_OF_MINE", "filled in")
    table = rows().rename(columns={"größe": "${oc.env:SECRET_OF_MINE}", "a, b": "[red]<b>", "label": "???"})
    table["kind"] = np.where(table["[red]<b>"] > 0, "${oc.env:SECRET_OF_MINE}", "???")
    table["???"] = np.where(table["???"] == "c0", "${x}", "$(touch pwned)")
    wrote(table, "???")
    done = compare(*ASKED, methods="outpert")
    assert done.exit_code == 0, done.output
    page = html.unescape(Path("out/index.html").read_text())
    schema = Schema.of(schemas.read(Path("out/schema.yaml")), "")
    assert schema.columns["kind"]["values"] == ["${oc.env:SECRET_OF_MINE}", "???"]
    for text in ("${oc.env:SECRET_OF_MINE}", "[red]<b>", "???", "${x}", "$(touch pwned)"):
        assert text in page
        assert text in done.output
    for path in here.rglob("*"):
        assert path.name != "pwned"
        assert path.is_dir() or b"filled in" not in path.read_bytes()
    assert "filled in" not in done.output


def test_the_page_says_what_was_read_and_what_next(here: Path) -> None:
    """The constant answer has a row whatever the methods; a first look has no verdict; a weak delta hides nothing."""
    written = Path("schema.yaml").read_text()
    Path("schema.yaml").write_text(written.replace("ranges_from_data: true", "ranges_from_data: false"))
    done = compare(*ASKED, "--delta", "0.03", "--quick", methods="objpert")
    assert done.exit_code == 0, done.output
    for text in (" ".join(done.output.split()), html.unescape(Path("out/index.html").read_text())):
        assert "Predicting label: 2 classes (c0, c1), so this is classification." in text
        assert "Read 'mine.csv': 60 rows; separator ',', encoding utf-8, decimal mark '.'." in text
        assert "Columns to learn from: 3, numbers in größe, a, b; categories in kind." in text
        assert "Missing values: 1 of kind." in text
        assert "Not used: same." in text
        assert "Always the largest class" in text
        assert "To publish, choose the method without them, on public data" in text
        assert "3 repeats are too few for a verdict" in text
        assert " is best" not in text
    assert "12 fits of 1 method." in done.output
    assert "would meet it." in " ".join(done.output.split())
    page = Path("out/index.html").read_text()
    assert "ranges and categories of the columns are public, as the schema says" in page
    assert '<p class="warning">Warning: delta 0.03 is not below 1/48' in page


def test_names_are_of_the_package_or_of_ones_own_and_a_first_look_is_without_the_slow(here: Path) -> None:
    Path("named_methods.py").write_text(MINE)
    everything, quick = ({*comparison.methods_named([], quick=quick)} for quick in (False, True))
    assert everything - quick == comparison.SLOW
    assert [*comparison.methods_named(["ops"], quick=True)] == ["ops"]
    assert {*comparison.methods_named(["named_methods.MyMethod"])} == {*everything, "MyMethod"}
    assert [*comparison.methods_named(["ops", "named_methods.MyMethod"])] == ["ops", "MyMethod"]


def test_many_rows_are_fitted_one_budget_at_a_time() -> None:
    """So that the margins of all repeats and budgets never lie in memory at once."""
    asked = asking(1)
    for records, most in ((100, 3), (10**6, 1)):
        cfg = asked.config({}, {"a": ObjPert(), "b": ObjPert()}, {"a": [1, 2, 3], "b": [1]}, records)
        assert cfg.experiment.compare.budgets_per_unit == most


@pytest.mark.slow
def test_methods_of_ones_own_one_that_fails_and_hollow_results_that_are_never_best(here: Path) -> None:
    """Lemma 5's theorem is for full batches; here they are small."""
    Path("methods_of_mine.py").write_text(MINE)
    own = [f"--method=methods_of_mine.{name}" for name in ("MyMethod", "Unlucky", "Flat", "Early")]
    methods = "outpert,dp_sgld_ryffel2022"
    done = compare(*ASKED, *own, methods=methods)
    assert done.exit_code == 0, done.output
    printed = " ".join(done.output.split())
    for said in ("Unlucky: RuntimeError: out of luck", "Flat: ", "Early: ε = 1: TypeError: "):
        assert said in printed
    assert set(read.read_runs(["out"], root=here).method) == {*methods.split(","), "MyMethod"}
    assert "Shown but not trusted: 1 (†)" in printed
    shown = pd.read_csv("out/compare.csv")
    assert not shown[shown.method.eq("dp_sgld_ryffel2022")].best.any()


BAD = [
    ("label\nx\ny\n", ["--schema", "s.yaml"], "s.yaml cannot be read: No such file"),
    (None, ["--methods", "objprt"], "method 'objprt' is unknown; did you mean objpert"),
    (None, ["--method", "nowhere.X"], "cannot import 'nowhere.X' (ModuleNotFoundError: "),
    (None, ["--method", "broken.M"], "cannot import 'broken.M' (NameError: name 'nope' is not"),
    (None, ["--method", "needs_one.Needs"], "needs_one.Needs() fails, TypeError: "),
    (None, ["--method", "json.JSONDecoder"], "json.JSONDecoder is no method"),
    (None, ["--test", "no.csv"], "'--test': file 'no.csv' does not exist"),
    (None, ["--delta", "0"], "--delta 0: must be in (0, 1)"),
    (None, ["--epsilon", "0,1"], "--epsilon 0,1: need positive numbers"),
    (None, ["--repeats", "1"], "'--repeats': Input should be greater than or equal to 2"),
    (None, ["--method", "math.gcd"], "math.gcd is no method: need a class"),
    (None, ["--group", " kind "], "line 7, column kind: --group needs a person in every row, not 'NA'"),
    (None, ["--group", "no"], "no column 'no' in the header"),
    (None, ["--group", "same", "--test", "mine.csv"], "--test mine.csv: with --group the split"),
    (None, ["--rows-per-person", "2"], "--rows-per-person 2: add --group COLUMN"),
    ("a,b\n1,2\n", ["--schema", "../other.yaml"], "no column 'label' in the header: there are a, b"),
    ("a,label\n1,x\n", ["--schema", "../other.yaml"], "no column 'b' in the header: there are a, label"),
    ("label: x\n", ["--schema", "mine.csv"], "mine.csv: unknown word 'label'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words", "message"), BAD)
def test_what_is_wrong_is_said_in_one_line(
    here: Path, text: str | None, words: list[str], message: str
) -> None:
    if text is not None:
        Path("mine.csv").write_text(text, encoding="utf-8")
    Path("../other.yaml").write_text("target: label\nclasses: [x, y]\ncolumns:\n  b: {low: 0, high: 1}\n")
    Path("broken.py").write_text("x = 1\ny = nope\n")
    needs = "class Needs:\n    budgeted = plan = release = True\n    def __init__(self, x): pass\n"
    Path("needs_one.py").write_text(needs)
    done = run("compare", *ASKED, "--methods", CHEAP, "--out", "out", *words)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output
    assert not Path("out").exists()


@pytest.mark.usefixtures("here", "full_disk")
def test_a_full_disk_is_named_with_the_file() -> None:
    done = compare(*ASKED, methods="nonprivate")
    assert done.exit_code == 2
    assert "dplangevin: out/config.yaml: No space left on device: free some space there" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("loss", [LOGISTIC, softmax(3), huber(1.0, 1.0)], ids=lambda loss: loss.name)
def test_every_private_method_has_plans_for_few_rows_at_the_price_asked_for(loss: Loss) -> None:
    x = torch.ones(1, 60, 2) / 2
    target = (0.0, 1.0) if loss.name == "huber" else None
    facts = Glm(x, torch.zeros(1, 60), loss, x_test=x[:, :16], target=target).facts
    methods = comparison.methods_named([])
    assert set(methods) == {"nonprivate", *(name for name, make in METHODS.items() if make().budgeted)}
    undefined = {"softmax": ["dpvi"], "huber": ["pate"]}.get(loss.name, [])
    for name, given in methods.items():
        method = comparison.fitted(given, facts)
        asked, why = comparison.budgets(name, method, facts, [1.0], 1e-5)
        if name in undefined:
            assert (asked, len(why)) == ([], 1)
        elif name != "nonprivate":
            assert 1.0 in asked
            assert not why
            plans = [method.plan(facts, Budget(e, 1e-5)) for e in asked]
            events = [whole(plan.guarantee.event) for plan in plans]
            prices = [Tight().epsilon(event, 1e-5, "replace_one") for event in events]
            assert min(abs(price - 1) for price in prices) < 2 * comparison.CLOSE, name


def test_a_person_is_in_the_training_rows_or_in_the_test_rows_with_few_rows() -> None:
    persons = np.random.default_rng(1).integers(0, 40, 300)
    for split in (Split(train_share=0.8, repeats=5), Split(folds=4, seed=2)):
        train, test = split_by_person(persons, 3, split, "mine")
        assert len(train) == len(test) == (split.folds or 5)
        for own, others in zip(train, test, strict=True):
            assert not {*persons[own]} & {*persons[others]}
            assert max(np.bincount(persons[[*own, *others]])) == 3
            assert len({*own, *others}) == len(own) + len(others) > 100


@dataclass(frozen=True)
class Stated(ObjPert):
    """A method that states another delta than it is asked for, or an event without a price of its own."""

    event: Any = None
    delta: float | None = None

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        of = super().plan(facts, budget)
        delta = budget.delta if self.delta is None else self.delta
        return of._replace(guarantee=of.guarantee._replace(event=self.event, delta=delta))


def test_three_records_cost_what_the_event_says() -> None:
    """A Gaussian mechanism with a third of the noise for one of three records, and every delta by the group lemma."""
    facts, asked = Glm(torch.ones(1, 60, 2) / 2, torch.zeros(1, 60), LOGISTIC).facts, Budget(2.0, 1e-5)
    assert planned(OfPersons(ObjPert(), 10), facts, [Budget(1e3, 1e-5)])[0].guarantee.epsilon <= 1e3
    same = [NoOpDpEvent(), NonPrivateDpEvent(), UnsupportedDpEvent()]
    for event in (*same, GaussianDpEvent(4)):
        (plan,) = planned(OfPersons(Stated(event=event), 3), facts, [asked])
        of = plan.guarantee
        assert (of.epsilon, of.delta) == pytest.approx((2.0, 1e-5), rel=1e-8)
        assert of.event == event or event not in same
        with pytest.raises(ValueError, match="more than the budget"):  # 1e-5 for one record is more for three
            planned(OfPersons(Stated(event=event, delta=1e-5), 3), facts, [asked])
    prices = [Tight().epsilon(each, 1e-5, "replace_one") for each in (of.event, GaussianDpEvent(4 / 3))]
    assert math.isclose(*prices)


def test_with_a_group_every_price_is_for_a_person(here: Path) -> None:
    """And with PATE, which learns from the even test rows, all methods are scored on the odd ones."""
    table = rows(300).assign(person=[f"p{k}" for k in np.random.default_rng(1).integers(0, 120, 300)])
    wrote(table)
    words = ["--group", "person", "--rows-per-person", "2", "--seed", "1"]
    done = compare(*ASKED, *words, methods="nonprivate,outpert,dp_gd,pate")
    assert done.exit_code == 0, done.output
    assert "replace-one of a person's rows, δ" in done.stdout.replace("\n", " ")
    told = " ".join(done.output.split())
    assert "Each ε is for 2 of a person's rows (person); the column person and the order of the rows" in told
    found = read.read_runs(["out"], root=here)
    private = found[np.isfinite(found.epsilon)]
    assert OmegaConf.load("out/schema.yaml").columns.person == "drop"
    proofs = {name: {*own.accountant_proven} for name, own in private.groupby("method")}
    exact = {"analytic Gaussian"}
    assert proofs == {"outpert": exact, "dp_gd": exact, "pate": {"group lemma, loose"}}
    assert private.assumptions.str.contains("the column person and the order of the rows are public").all()
    priced_at(private[private.method != "pate"], 1.0, 10.0)
    scored = found[found.metric == "accuracy"]
    _, test = split_by_person(table.person.to_numpy(), 2, Split(train_share=0.8, repeats=3, seed=1), "mine")
    odd = test.shape[1] // 2
    for name, run in OmegaConf.load("out/config.yaml").experiment.compare.runs.items():
        assert run.problem == ("public" if name == "pate" else "linear")
    assert np.allclose(scored.value * odd, (scored.value * odd).round())
