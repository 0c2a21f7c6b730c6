"""Everything about a GPU in one go, for a machine that has one: python benchmarks/gpu.py, or `make gpu`.

1. The tests that are marked `gpu`.
2. One task of each method of some runs, computed again on the GPU and compared with the committed rows of the CPU.
3. A table of times beside JAX on the same device and beside what the device reaches: memory bandwidth and products of
   matrices.

It writes benchmarks/gpu.md.  `--device cpu --quick` runs the same on a CPU in a minute, and writes nothing.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import adult
import torch
from chains import BATCH, CLIP, STEPS, closed_form, jax_steps
from extraction import Extraction
from hydra.utils import instantiate
from machine import describe
from measure import ROOT, medians, timed

from dplangevin import random
from dplangevin.backbones import network as backbone_of
from dplangevin.backbones.pretrain import Session, initialise
from dplangevin.device import drawing, named
from dplangevin.methods import released
from dplangevin.privacy import Budget
from dplangevin.problems.chain import Chain
from dplangevin.problems.network import NetworkProblem
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import run

SEEDS, CHAINS = 10, (110, 1_000, 10_000, 100_000)
IMAGES, SIDE = 60_000, 8192  # of features; of the matrices of the product
COPIED = 2**28  # numbers
CHECKED = "compare-synthetic", "compare-abalone", "li2019_tab1-mnist"  # runs with tasks of every kind


class Line(NamedTuple):
    """One line of the table: what was timed, its time, the peer's time."""

    what: str
    ours: str
    jax: str


def lines(device: torch.device, quick: bool) -> Iterator[Line]:
    """Yield the lines of the table as they are measured."""
    done = partial(_finished, device)
    small = 100 if quick else 1
    numbers = torch.ones(COPIED // small, device=device)
    (copy,) = medians(5, lambda: done(numbers.clone()))
    yield Line("memory: copy of a tensor", f"{2 * 4 * len(numbers) / copy / 1e9:,.0f} GB/s", "")
    side = SIDE // (8 if quick else 1)
    matrix = torch.ones(side, side, device=device)
    (product,) = medians(5, lambda: done(matrix @ matrix))
    yield Line(f"product of matrices of {side:,}, float32", f"{2 * side**3 / product / 1e12:.2f} TFLOP/s", "")
    cfg = adult.config("laptop")
    problem = adult.problem(cfg).to(device)
    for count in CHAINS[: 1 if quick else None]:
        each = count // SEEDS
        step = torch.full((STEPS,), 1e-3, dtype=torch.float64)
        sampling = Sampling("poisson", BATCH, (STEPS + 0.5) * BATCH / problem.n)
        chains = [Chain(step, torch.ones_like(step), sampling, CLIP, l2=1e-3) for _ in range(each)]
        rng = random.generator(0, "bench/gpu", drawing(device))
        sides: list[Callable[[], object]] = [partial(_run, device, problem, chains, SEEDS, rng)]
        if peer := _jax(problem.to(torch.device("cpu")), each):
            sides.append(peer)
        ours, *peers = [1e6 * taken / (STEPS * count) for taken in medians(3, *sides)]
        what = f"one chain-step on Adult, {count:,} chains, batch {BATCH}, Poisson, clipped"
        yield Line(what, f"{ours:.4f} us", f"{peers[0]:.4f} us" if peers else "")
    for name in ("tanh", "li2019"):
        yield _network(name, cfg, device)
    yield from _public(cfg, device, small)
    for name in ("objpert", "ops"):
        method = instantiate(cfg.method[name])
        budgets = [Budget(0.1, cfg.delta), Budget(1.0, cfg.delta)] if quick else adult.budgets(cfg)
        rng = random.generator(0, "bench/gpu", drawing(device))
        _, taken = timed(partial(released, method, problem, budgets, SEEDS, rng))
        yield Line(f"{name} on Adult, {len(budgets)} budgets x {SEEDS} seeds", f"{taken:.2f} s", "")


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
        import jax  # noqa: F401
    except ImportError:
        return None
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
    drawn = random.generator(0, "bench/gpu", drawing(device))
    (taken,) = medians(3, partial(_run, device, of, [chain], 1, drawn))
    return Line(f"private step of the network {name}, batch 256", f"{1e3 * taken / len(step):.2f} ms", "")


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
        yield Line(f"an epoch of pre-training, {name}, {len(images):,} images", f"{taken:.1f} s", "")
        extraction = Extraction(entry.resize, entry.batch, entry.public_images, entry.padding, entry.flip)
        backbone.eval()
        _, taken = timed(partial(extraction.features, backbone, images.numpy(), device))
        yield Line(f"features, {name}, {len(images):,} images", f"{taken:.1f} s", "")


def _epoch(session: Session) -> None:
    """Train for an epoch, which ends with a look at the accuracy."""
    for _ in range(session.per_epoch):
        session.advance(session.per_epoch)


def table(found: list[Line]) -> str:
    """Return the lines as a Markdown table."""
    head = ["| what | this project | JAX, same device |", "| --- | --- | --- |"]
    return "\n".join([*head, *(f"| {line.what} | {line.ours} | {line.jax or '-'} |" for line in found)])


def said(command: list[str], **environment: str) -> tuple[str, bool]:
    """Return the output of a command, and whether it succeeded."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    return (done.stdout + done.stderr).strip(), done.returncode == 0


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
    where = {"DPL_DEVICE": args.device}
    parts = [f"# On {name}\n\nMade by `make gpu`.\n\n{describe(torch.get_num_threads(), 'laptop')}"]
    if not args.quick:
        tests, passed = said([sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests"], **where)
        parts.append(f"## Tests marked gpu\n\n{tests.splitlines()[-1]}")
        rows, same = said([sys.executable, "pipelines/verify.py", *CHECKED, "--units", "1"], **where)
        how = "Rows of the CPU computed again here. Digits may move; a verdict may not."
        parts.append(f"## Committed rows\n\n{how}\n\n```\n{rows}\n```")
        print(f"tests passed: {passed}; rows the same bytes: {same}", flush=True)
    found = []
    for line in lines(device, args.quick):
        print(" | ".join(line), flush=True)
        found.append(line)
    drawn = os.environ.get("DPL_RANDOM") or "cpu"
    parts.append(f"## Times\n\nRandom numbers are drawn by DPL_RANDOM={drawn}.\n\n{table(found)}\n")
    if not args.quick:
        (ROOT / "benchmarks/gpu.md").write_text("\n\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
