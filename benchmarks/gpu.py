"""Everything about a GPU in one go, for a machine that has one: python benchmarks/gpu.py, or `make gpu`.

1. The tests that are marked `gpu`.
2. One task of each method of some runs, computed again on the GPU and compared with the committed rows of the CPU.
3. A table of times beside JAX on the same device, beside the CPU of the same machine, and beside what the device
   reaches: memory bandwidth and products of matrices.

The first two run at the same time, the third alone.  It writes benchmarks/gpu.md after each of them, so that an
interruption loses nothing.  `--device cpu --quick` runs the third on a CPU in a minute, and writes nothing.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import adult
import torch
from chains import BATCH, CLIP, STEPS, closed_form, jax_steps
from hydra.utils import instantiate
from measure import ROOT, describe, medians, timed

from dplangevin import random
from dplangevin.backbones import network as backbone_of
from dplangevin.backbones.features import Extraction
from dplangevin.backbones.pretrain import Session, initialise
from dplangevin.device import CPU, named
from dplangevin.methods import released
from dplangevin.privacy import Budget
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.network import NetworkProblem
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import run

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes most of the GPU's memory

SEEDS, CHAINS = 10, (10, 110, 300, 1_000, 10_000, 100_000)
ON_CPU = 10_000  # chains; more take the CPU a minute
LIMIT = 400  # seconds, of the tests and of the comparison
IMAGES, SIDE = 60_000, 8192  # of features; of the matrices of the product
COPIED = 2**28  # numbers
CHECKED = (  # runs whose tasks are of many kinds; none needs a posterior that has the same bytes here
    "wang2015-abalone",
    "leaderboard-german",
    "li2019_tab1-mnist",
)


class Line(NamedTuple):
    """One line of the table: what was timed, its time, and the times of the same on other ways.

    - `cpu`: Ours on the CPU of the same machine.
    - `jax`: JAX on the device.
    """

    what: str
    ours: str
    cpu: str = ""
    jax: str = ""


def lines(device: torch.device, quick: bool) -> Iterator[Line]:
    """Yield the lines of the table as they are measured."""
    done = partial(_finished, device)
    small = 100 if quick else 1
    numbers = torch.ones(COPIED // small, device=device)
    (copy,) = medians(5, lambda: done(numbers.clone()))
    yield Line("memory: copy of a tensor", f"{2 * 4 * len(numbers) / copy / 1e9:,.0f} GB/s")
    side = SIDE // (8 if quick else 1)
    matrix = torch.ones(side, side, device=device)
    (product,) = medians(5, lambda: done(matrix @ matrix))
    yield Line(f"product of matrices of {side:,}, float32", f"{2 * side**3 / product / 1e12:.2f} TFLOP/s")
    cfg = adult.config("laptop")
    problem = adult.problem(cfg).to(device)
    for count in CHAINS[: 1 if quick else None]:
        yield _chains(problem, count, device)
    for name in ("tanh", "li2019"):
        yield _network(name, cfg, device)
    yield from _public(cfg, device, small)
    for name in ("objpert", "ops"):
        method = instantiate(cfg.method[name])
        budgets = [Budget(0.1, cfg.delta), Budget(1.0, cfg.delta)] if quick else adult.budgets(cfg)
        rng = random.generator(0, "bench/gpu")
        _, taken = timed(partial(released, method, problem, budgets, SEEDS, rng))
        yield Line(f"{name} on Adult, {len(budgets)} budgets x {SEEDS} seeds", f"{taken:.2f} s")


def _chains(problem: Glm, count: int, device: torch.device) -> Line:
    """Return the line of a step of `count` chains, on the device and on the CPU, in turns with JAX."""
    each = count // SEEDS
    step = torch.full((STEPS,), 1e-3, dtype=torch.float64)
    sampling = Sampling("poisson", BATCH, (STEPS + 0.5) * BATCH / problem.n)
    chains = [Chain(step, torch.ones_like(step), sampling, CLIP, l2=1e-3) for _ in range(each)]
    here = problem.to(CPU)

    def side(of: Glm) -> Callable[[], object]:
        return partial(_run, device, of, chains, SEEDS, random.generator(0, "bench/gpu"))

    sides = {"ours": side(problem)}
    if count <= ON_CPU:
        sides["cpu"] = side(here)
    if peer := _jax(here, each):
        sides["jax"] = peer
    taken = [1e6 * seconds / (STEPS * count) for seconds in medians(3, *sides.values())]
    cells = count * BATCH * problem.x.shape[-1]
    what = f"one chain-step on Adult, {count:,} chains ({cells:.1g} numbers a step), batch {BATCH}, Poisson, clipped"
    return Line(what, **{name: f"{each:.4f} us" for name, each in zip(sides, taken, strict=True)})


def _finished(device: torch.device, found: Any) -> Any:
    """Wait for the device: its calls return before they are done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return found


def _run(device: torch.device, *given: Any) -> None:
    _finished(device, run(*given))


def _jax(problem: Any, each: int) -> Callable[[], object] | None:
    """Return JAX's steps on its own default device, which is a GPU where jax[cuda12] is installed; None without JAX."""
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_default_matmul_precision", "highest")  # as torch: float32, not TF32
    return jax_steps(problem, each, closed_form, poisson=True)


def _network(name: str, cfg: Any, device: torch.device) -> Line:
    """Return the line of a private step of a network, batch 256, with the gradients of single images clipped."""
    made = instantiate(cfg.problem[name].network, _convert_="all")
    rng = random.generator(0, "bench/gpu/images")
    x = torch.randint(256, (2_000, *made.shape), dtype=torch.uint8, generator=rng)
    y = torch.randint(made.classes, (len(x),), generator=rng)
    of = NetworkProblem(made, x, y, x[:1], y[None, :1]).to(device)
    step = torch.full((20,), 1e-3, dtype=torch.float64)
    chain = Chain(step, torch.ones_like(step), Sampling("poisson", 256, 1.0), 1.0)
    drawn = random.generator(0, "bench/gpu")
    (taken,) = medians(3, partial(_run, device, of, [chain], 1, drawn))
    return Line(f"private step of the network {name}, batch 256", f"{1e3 * taken / len(step):.2f} ms")


def _public(cfg: Any, device: torch.device, small: int) -> Iterator[Line]:
    """Yield the lines of public networks: an epoch of pre-training, and features of CIFAR-10's 60,000 images."""
    rng = random.generator(0, "bench/gpu/images")
    images = torch.randint(256, (IMAGES // small, 3, 32, 32), dtype=torch.uint8, generator=rng)
    labels = torch.randint(100, (len(images),), generator=rng)
    for name in ("resnet18", "alexnet"):
        entry, training = (
            cfg.features[f"cifar10_{name}"],
            instantiate(cfg.pretrain[f"{name}_cifar100"].training),
        )
        backbone = backbone_of(cfg.backbone[entry.backbone])
        initialise(backbone, rng)
        data = (images.numpy(), labels.numpy()), (images[:100].numpy(), labels[:100].numpy())
        session = Session(training, backbone, *data, rng, device)
        _, taken = timed(partial(_epoch, session))
        yield Line(f"an epoch of pre-training, {name}, {len(images):,} images", f"{taken:.1f} s")
        extraction = Extraction(entry.resize, entry.batch, entry.public_images, entry.padding, entry.flip)
        backbone.eval()
        _, taken = timed(partial(extraction.features, backbone, images.numpy(), device))
        yield Line(f"features, {name}, {len(images):,} images", f"{taken:.1f} s")


def _epoch(session: Session) -> None:
    """Train for an epoch, which ends with a look at the accuracy."""
    for _ in range(session.per_epoch):
        session.advance(session.per_epoch)


def table(found: list[Line]) -> str:
    """Return the lines as a Markdown table."""
    columns = "", "on the device", f"on the CPU, {torch.get_num_threads()} threads"
    head = [*columns, "JAX on the device"]
    rows = [head, ["---"] * len(head), *([each or "-" for each in line] for line in found)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def checks(device: str) -> str:
    """Return what the tests and the comparison with committed rows said; both run at the same time."""
    marked = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if _marked(path)]
    commands = [
        ["-m", "pytest", "-q", "-m", "gpu", *marked],
        ["pipelines/verify.py", *CHECKED, "--units", "1"],
    ]
    where = {**os.environ, "DPL_DEVICE": device, "OMP_NUM_THREADS": "1", "DPL_WORKERS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=where,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for command in commands
    ]
    end = time.monotonic() + LIMIT
    tests, rows = [_until(end, process) for process in running]
    print(tests, rows, sep="\n", flush=True)
    how = "Rows of the CPU computed again here. Last digits may move."
    return (
        f"## Tests marked gpu\n\n{tests.splitlines()[-1]}\n\n## Committed rows\n\n{how}\n\n```\n{rows}\n```"
    )


def _until(end: float, process: "subprocess.Popen[str]") -> str:
    """Return what a process prints; at the time `end` it is stopped, and the last line says so."""
    try:
        return process.communicate(timeout=max(0.0, end - time.monotonic()))[0].strip()
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{process.communicate()[0].strip()}\nstopped after {LIMIT} seconds".strip()


def _marked(path: Path) -> bool:
    """Return True for a file with tests for a GPU: the others need not be imported."""
    text = path.read_text()
    return "mark.gpu" in text or "emulated.EVERY" in text


def main() -> int:
    parser = argparse.ArgumentParser(prog="make gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 ... (default: cuda); cpu to try it")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    args = parser.parse_args()
    try:
        device = named(args.device, "--device")
    except ValueError as error:
        print(f"make gpu: {error}", file=sys.stderr)
        return 1
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    head = f"# On {name}\n\nMade by `make gpu`.\n\n{describe(torch.get_num_threads(), 'laptop')}"
    parts = [head] if args.quick else [head, checks(args.device)]
    found = []
    for line in lines(device, args.quick):
        print(" | ".join(line), flush=True)
        found.append(line)
        if not args.quick:
            (ROOT / "benchmarks/gpu.md").write_text("\n\n".join([*parts, f"## Times\n\n{table(found)}\n"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
