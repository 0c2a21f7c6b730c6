"""README.md and docs/: their links, their numbers, their commands and their snippets."""

import ast
import os
import re
import shlex
import sys
import tokenize
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import bench
import numpy as np
import pandas as pd
import pytest
import torch
from checkout import ROOT, dvc, fresh_clone, run
from quick import sample
from typer.testing import CliRunner

from dplangevin.cli import app

REPORT = ROOT / "results/report"
README = ROOT / "README.md"
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS]
TOOLS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # dvc by name
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


class Block(NamedTuple):
    """A fenced block: its language, its text, where it begins."""

    language: str
    text: str
    place: str


def blocks(page: Path) -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [
        Block(match[1], match[2], f"{page.relative_to(ROOT)}:{page.read_text()[: match.start()].count(chr(10)) + 1}")
        for match in found
    ]  # fmt: skip


def prose(page: Path) -> str:
    """A page without its fenced blocks and spans of code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda match: "`" * len(match[0]), text)


def commands(page: Path) -> list[str]:
    """What a reader types: lines of `sh` blocks, and lines after `$ ` in `console` blocks, without comments."""
    found = []
    for block in blocks(page):
        if block.language == "sh":
            lines = block.text.replace("\\\n", " ").splitlines()
        elif block.language == "console":
            lines = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
        else:
            continue
        found += [re.split(r"\s+# ", line)[0].strip() for line in lines if line and not line.startswith("#")]
    return [re.sub(r"\s+", " ", command) for command in found]


COMMANDS = list(dict.fromkeys(command for page in PAGES for command in commands(page)))


@cache
def anchors(path: Path) -> set[str]:
    """What may follow # in a link to a page, as GitHub makes it of headings."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^()\s]+)\)", text)


@cache
def claims() -> pd.DataFrame:
    return pd.read_csv(ROOT / "results/claims.csv", keep_default_na=False)


REPORTED = [str(page.relative_to(ROOT)) for page in sorted(REPORT.glob("*.md"))]


@pytest.mark.parametrize("name", [*NAMES, *REPORTED, "data/bundled/README.md"])
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    for link in links(prose(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name}: {link}"
        assert target.is_relative_to(ROOT)
        assert not anchor or anchor in anchors(target), f"{name}: {link} has no such place"


@pytest.mark.slow
def test_the_classifier_of_the_readme_cuts_no_row() -> None:
    (block,) = [block for block in blocks(README) if "row_bound" in block.text]
    space: dict[str, Any] = {}
    exec(block.text, space)
    assert "no row is longer than row_bound" in block.text
    assert ((space["X"] ** 2).sum(1) <= space["model"].row_bound ** 2).all()


def test_every_page_is_reached_from_the_readme() -> None:
    reached, todo = set(), [README]
    while todo:
        page = todo.pop()
        reached.add(page)
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(prose(page))}
        todo += [each for each in found & set(PAGES) if each not in reached]
    assert reached == set(PAGES)


NUMBER = r"(?<![\w.,^*])[-−]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[-−]?\d+)?(?![\w.]*\d)"
NAME = (  # with digits that are no result: of statements, networks, papers, formulas, the place in a list
    r"(?:Theorems?|Lemmas?|Corollary|Propositions?|Tables?|Figures?|Sections?|[Ee]quations?|Remarks?|Algorithms?|"
    r"Conditions?|eq\.) [\d.]+[a-z]?(?: and [\d.]+)*|CIFAR-\d+|ResNet-\d+|et al\. \(\d+\)|wang2015|li2019|"
    r"ryffel2022|95 %|exp\(-\d?U\)|\b[A-Z]\^\(?-?[\d/.]+\)?|\d log|^\d+\."
)


def items(page: Path) -> Iterator[str]:
    """Entries of lists, each with its continuation lines."""
    for match in re.finditer(r"^(?:\*|\d+\.) .*(?:\n  +\S.*)*", page.read_text(), re.MULTILINE):
        yield match[0]


def evidence(page: Path, link: str) -> list[float]:
    """The numbers in what a link leads to: a row of claims.csv, a table, a file of conf/."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve()
    if target.parent == REPORT:
        frame = claims()
        text = " ".join(frame[frame.id.eq(anchor)].astype(str).to_numpy().ravel())
    elif target.suffix in {".csv", ".md", ".yaml"} and target not in PAGES:
        text = target.read_text()
    else:
        return []
    found = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", text.replace(",", " , "))
    return [abs(float(number)) for number in found]


@pytest.mark.parametrize("name", ["README.md", "docs/findings.md", "docs/networks.md"])
def test_the_numbers_of_a_finding_are_in_what_it_links_to(name: str) -> None:
    """To the digits printed; shares of one may stand as percentages or points."""
    page = ROOT / name
    for item in items(page):
        assert links(item) or name == "README.md"
        linked = [value for link in links(item) for value in evidence(page, link)]
        text = re.sub(NAME, "", re.sub(r"\]\([^()\s]+\)", "]", re.sub(r"`[^`\n]*`", "", item)))
        for printed in re.findall(NUMBER, text) if linked else []:
            plain = printed.replace("−", "-").replace(",", "")
            number = abs(float(plain))
            digits = len(plain.partition("e")[0].partition(".")[2])
            power = int(plain.partition("e")[2] or 0)
            half = 0.5 * 10.0 ** (power - digits) * (1 + 1e-9)
            assert any(abs(scale * value - number) <= half for value in linked for scale in (1, 100)), (
                f"{name}: {printed} is in nothing that this links to: {text[:120]}"
            )


def test_the_counts_of_claims() -> None:
    paper = claims()[claims().kind.eq("paper")]
    derived, facts = paper.cause.eq("derivation checked"), paper[paper.verdict.eq("fails")].fact
    said = (
        f"Of {len(paper)} claims in the papers' own words, {paper.verdict.eq('holds').sum()} hold; {derived.sum()} "
        f"of these only restate a formula. {len(facts)} fail, on {facts.nunique()} distinct facts."
    )
    assert said in " ".join(README.read_text().split())


def test_which_learner_is_said_with_the_numbers_of_the_leaderboard() -> None:
    page = (ROOT / "docs/methods.md").read_text()
    frame = pd.read_csv(ROOT / "results/exhibits/leaderboard/leaderboard.csv")
    development = ["adult", "abalone", "synthetic", "german", "magic", "segment", "phoneme"]
    held_out = frame[~frame.dataset.isin(development)]
    ours, one = held_out[held_out.method.eq("dp_gd")], held_out[held_out.epsilon.eq(1)].copy()
    first = ours[ours.epsilon.eq(1)]
    for said in (
        f"highest mean on {ours.best.sum()} of {len(ours)} pairs of table and ε; on {ours.significant.sum()} the best",
        f"the best on {first.best.sum()} of the {len(first)} held-out tables",
        f"beaten beyond chance on one, {first.dataset[first.significant].item()}",
    ):
        assert said in " ".join(page.split()), said
    one["text"] = one.accuracy.map("{:.4f}".format).str.lstrip("0")
    for row in re.findall(r"^\| (\w+) \| [\d,]+ \| \d+ \| (\.\d+) \| .*? (\.\d+) \| (\.\d+) \|$", page, re.M):
        there = one[one.dataset.eq(row[0])].set_index("method")
        others = there.drop(["dp_gd", "nonprivate"]).sort_values("accuracy")
        assert row[1:] == (there.text["dp_gd"], others.text.iloc[-1], there.text["nonprivate"])


def stems(folder: str, pattern: str = "*.yaml") -> set[str]:
    return {path.stem for path in (ROOT / folder).glob(pattern)}


def table(page: str, heading: str) -> set[str]:
    """The names in code in the first column of the first table after a heading."""
    text = f"\n{(ROOT / page).read_text()}".partition(f"\n{heading}\n")[2]
    rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert rows, f"{page} has no table below {heading}"
    return {name for row in rows[0].splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def variables() -> set[str]:
    """The environment variables that the sources read."""
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("pipelines/*.*"), ROOT / "Makefile"]
    found = {name for path in sources for name in re.findall(r"\bDPL_[A-Z]+\b", path.read_text())}
    return found | {"DATA_MIRROR"}


def test_tables_name_everything_there_is() -> None:
    assert table("docs/methods.md", "# Methods") == stems("conf/method")
    assert table("docs/privacy.md", "## Accountants") == stems("conf/accountant")
    assert table("docs/pipeline.md", "## Environment variables") == variables()
    explained = re.findall(r"\(`(\w+)`\)\.\*\*", (ROOT / "benchmarks/README.md").read_text())
    assert sorted(explained) == sorted(bench.BENCHMARKS)


def test_make_knows_the_targets_and_what_they_would_do() -> None:
    """Without doing it."""
    makefile = (ROOT / "Makefile").read_text()
    known = set(re.findall(r"\$\((?:call on,\$\()?([A-Z]+)\)", makefile))
    for command in [command for command in COMMANDS if command.startswith("make ")]:
        done = run(ROOT, *shlex.split(command), "--dry-run", PYTHON=sys.executable)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert re.search(rf"^{command.split()[1]}:.*## ", makefile, re.MULTILINE)
        assert set(re.findall(r" ([A-Z]+)=", command)) <= known


# What docs/pipeline.md shows of DVC, in this order in one clone.
SWEEP = [
    command
    for command in commands(ROOT / "docs/pipeline.md")
    if command.startswith(("dvc ", "git ")) and not re.search(r"--queue|--run-all|'[+~]|experiment@", command)
]  # not those of minutes or hours
SWEEP = list(dict.fromkeys(SWEEP))


@pytest.mark.trial("the sweep of the docs")
@pytest.mark.slow
def test_the_sweep_runs_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = fresh_clone(tmp_path / "fresh")
    shown = {block.text for block in blocks(ROOT / "docs/pipeline.md") if block.language == "console"}
    for command in SWEEP:
        if command.startswith("dvc exp run"):  # which needs a clean commit
            run(clone, "git", "restore", ".")
        done = run(clone, "sh", "-c", command, PATH=TOOLS, DVC_STUDIO_OFFLINE="1")
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        if command == "dvc repro":  # in step, without data and without a network
            assert "Data and pipelines are up to date." in done.stdout
            assert not (clone / "data/raw").exists()
        if command.startswith("dvc metrics diff"):  # the numbers that the page shows
            rows = [line for text in shown for line in text.splitlines() if " ops.at_" in line]
            assert len(rows) == 4
            said = [[cell.strip() for cell in row.split("|")] for row in rows]
            found = [[cell.strip() for cell in row.split("|")] for row in done.stdout.splitlines()]
            assert all(row in found for row in said), done.stdout
    points = pd.read_csv(clone / "results/exhibits/sweep/sweep.csv")  # the last command sweeps
    assert sorted(points.radius.dropna().unique()) == [1, 2, 5, 10]
    run(clone, "git", "restore", ".")
    assert run(clone, "git", "status", "--porcelain").stdout == ""


# What the pages show of the command line.  The commands of a tutorial are its steps, in their order.
STEPS = {command for page in TUTORIALS for command in commands(page) if command.startswith("dplangevin ")}
TYPED = [command for command in COMMANDS if command.startswith("dplangevin ") and command not in STEPS]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A reader's folder: a table, its schema, another table to test on, a method of their own, results."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    for name in ("my.csv", "other.csv"):
        table = pd.DataFrame({"age": rng.integers(18, 90, 60), "ward": rng.choice(["A", "B"], 60)})
        table["label"] = np.where(table.age + 20 * rng.normal(size=60) > 50, "ill", "well")
        table.to_csv(folder / name, index=False)
    (method,) = (block.text for block in blocks(ROOT / "docs/design.md") if block.language == "python")
    (folder / "mine.py").write_text(method)
    (learner,) = (block.text for block in blocks(ROOT / "docs/audit.md") if block.language == "py")
    (folder / "noisy.py").write_text(learner)
    (folder / "results").symlink_to(ROOT / "results")
    assert run(folder, "git", "init", "--quiet").returncode == 0  # `experiments` asks git and DVC
    assert dvc(folder, "init", "--quiet").returncode == 0
    (template,) = (each for each in TYPED if each.startswith("dplangevin schema"))
    command, _, name = template.partition(" > ")
    with pytest.MonkeyPatch.context() as patch:
        schema = typed(folder, command, patch)
    for column, known in (  # what the reader does with the template: say what is public
        ("age: {low: '???', high: '???'}", "age: {low: 0, high: 120}"),
        ("ward: {values: '???'}", "ward: {values: [A, B]}"),
        ("classes: ???", "classes: [well, ill]"),
    ):
        assert column in schema
        schema = schema.replace(column, known)
    (folder / name).write_text(schema)
    yield folder
    for name in ("mine", "noisy"):  # which other tests have one of
        sys.modules.pop(name, None)


def typed(folder: Path, command: str, patch: pytest.MonkeyPatch) -> str:
    """What `dplangevin ...` prints, typed in a folder."""
    patch.chdir(folder)
    patch.syspath_prepend(str(folder))
    for name, value in (("COLUMNS", "120"), ("DPL_WORKERS", "1"), ("PATH", TOOLS)):
        patch.setenv(name, value)
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    status = 1 if "VIOLATED" in done.stdout else 0  # of `dplangevin audit`
    assert done.exit_code == status, done.output
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [each for each in TYPED if not each.startswith("dplangevin schema")],
    ids=lambda each: each[11:50],
)
def test_the_command_line_does_what_the_pages_show(
    command: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = typed(desk, command, monkeypatch)
    for page in PAGES:
        for block in blocks(page):
            check_output(block, command, output)


def check_output(block: Block, command: str, output: str) -> None:
    """That a command printed the lines that a block shows after it, except those that it leaves out by `...`."""
    said = f"\n{block.text}".partition(f"\n$ {command}\n")[2] if block.language == "console" else ""
    printed = [" ".join(line.split()) for line in output.splitlines()]
    for line in said.partition("\n$ ")[0].removesuffix("\n").splitlines():
        if line.strip() not in ("", "..."):
            assert " ".join(line.split()) in printed, f"{block.place}: {line!r} is not in\n{output}"


def check(comment: str, value: Any, place: str) -> None:
    """That a statement gives the number, or at least the number, that the comment after it says."""
    if match := re.fullmatch(r"#\s*(at least )?(-?\d+(?:\.(\d+))?)", comment):
        if match[1]:
            assert value >= float(match[2]), place
        else:
            assert value == pytest.approx(float(match[2]), abs=0.5 * 10.0 ** -len(match[3] or "")), place


def execute(block: Block, space: dict[str, Any]) -> None:
    """Run the statements of a block; where a comment after one is a number, that is what it gives."""
    comments = {
        token.start[0]: token.string
        for token in tokenize.generate_tokens(StringIO(block.text).readline)
        if token.type == tokenize.COMMENT
    }
    for statement in ast.parse(block.text).body:
        source = ast.get_source_segment(block.text, statement) or ""
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), block.place, "eval"), space)
        else:
            exec(compile(ast.Module([statement], []), block.place, "exec"), space)
            value = space.get(source.partition(" = ")[0])
        check(comments.get(statement.end_lineno or 0, ""), value, f"{block.place}: {source}")


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python and commands in one folder, each with the output that the page shows."""
    with torch.random.fork_rng(devices=[]):  # a page for PyTorch may seed the global generator
        follow(blocks(page), tmp_path, monkeypatch)


def follow(steps: list[Block], folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)
    space: dict[str, Any] = {"__name__": "tutorial"}
    patch.setitem(sys.modules, "tutorial", ModuleType("tutorial"))  # where dataclasses look names up
    printed = ""
    for block in steps:
        if block.language == "python":
            with redirect_stdout(StringIO()) as stream:
                execute(block, space)
            printed = stream.getvalue()
        elif block.language == "output":
            assert [line.rstrip() for line in printed.splitlines()] == block.text.splitlines(), block.place
        elif block.language == "console":
            for command in re.findall(r"^\$ (dplangevin .*)$", block.text, re.MULTILINE):
                typed_in, _, name = command.partition(" > ")
                output = typed(folder, typed_in, patch)
                if name:
                    (folder / name).write_text(output)
                check_output(block, command, output)


@pytest.mark.parametrize(
    "name",
    sample(
        [name for name in NAMES if not name.startswith("docs/tutorials")],
        lambda name: name in ("README.md", "docs/methods.md"),
    ),
)
def test_python_snippets_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"__name__": "snippet"}
    for block in blocks(ROOT / name):
        if block.language == "python":
            execute(block, space)
