"""One private step of the networks on images: ours, PyTorch's without privacy, every mode of Opacus, and JAX's.

Always on one thread.  Times are of the processor, not of the clock, so that other work on the machine counts less.
"""

import math
import os
import time
from pathlib import Path
from statistics import median

import torch
from measure import Options, Row, isolated, verdict
from network_steps import BATCH, JAX, MODES, Step, jax_sides, other_ways, private, rounding, sides

NETWORKS = "tanh", "li2019"
RATIO = 1.3  # to the non-private step, that is asked for
ROUNDS = 5
EPOCHS, EXAMPLES, LARGE, MINUTES = 20, 60_000, 512, 8


def rows(options: Options) -> list[Row]:
    torch.set_num_threads(1)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # XLA takes every core that it is given
    return [row for name in NETWORKS for row in of(name, options)] + epochs(options)


def of(name: str, options: Options) -> list[Row]:
    """Time and peak memory of one network's steps, each memory in a process of its own."""
    steps = {who: make() for who, make in {**sides(name), **other_ways(name), **jax_sides(name)}.items()}
    half = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    if half:  # its convolutions abort on other processors
        steps["bfloat16"] = private(name, dtype=torch.bfloat16)
    seconds = times(steps, ROUNDS * options.runs)
    spread = {who: 1e3 * value for who, value in seconds.items()}
    plain, ours = best(spread, "plain"), spread["ours"]
    peers = {mode: best(spread, mode) for mode in MODES}
    memory = {who: isolated(1, peak, name, who) for who in sides(name) if who != "ours"}
    own = isolated(1, peak, name, "ours")
    lean = {mode: best(memory, mode) for mode in MODES}
    how = (
        f"processor time, median of {ROUNDS * options.runs} steps in turns, the better memory format of each"
    )
    rounded = [
        Row(
            f"private step, network {name}, in bfloat16",
            f"{spread['bfloat16']:.2f} ms",
            f"in float32 {ours:.2f} ms",
            f"{spread['bfloat16'] / plain:.2f} times non-private",
            *("-", "-", "1"),
            f"{how}; the sum of clipped gradients is {rounding(name):.1%} of its norm off, for which no price allows",
        )
        for _ in range(half)
    ]
    ways = Row(
        f"private step, network {name}, in other ways",
        f"{ours:.2f} ms",
        f"gradients computed again {spread['computed again']:.2f} ms; written whole {spread['written whole']:.2f} ms",
        " and ".join(f"{spread[way] / plain:.2f}" for way in other_ways(name)) + " times non-private",
        *("-", "-", "1"),
        f"{how}; ours keeps single gradients, and takes norms of what is in the cache",
    )
    return [
        *rounded,
        ways,
        Row(
            f"private step, network {name}, batch {BATCH}",
            f"{ours:.2f} ms",
            f"non-private {plain:.2f} ms",
            f"{ours / plain:.2f} times",
            f"<= {RATIO} times",
            verdict(ours / plain <= RATIO),
            "1",
            how,
        ),
        Row(
            f"private step, network {name}, against Opacus",
            f"{ours / plain:.2f} times non-private",
            "; ".join(f"{mode} {value / plain:.2f}" for mode, value in peers.items()),
            f"{min(peers.values()) / ours:.2f} times faster than its fastest",
            "faster than every mode",
            verdict(ours < min(peers.values())),
            "1",
            how,
        ),
        Row(
            f"private step, network {name}, against JAX",
            f"{ours / plain:.2f} times non-private",
            "; ".join(f"{peer} {spread[peer] / plain:.2f}" for peer in ("JAX", *JAX))
            + " (JAX alone: not private)",
            f"{min(spread[peer] for peer in JAX) / ours:.2f} times faster than the faster of both",
            "faster than both",
            verdict(ours < min(spread[peer] for peer in JAX)),
            "1",
            f"{how}; all in units of PyTorch's step without privacy",
        ),
        Row(
            f"peak memory, network {name}, batch {BATCH}",
            f"{own:.0f} MB",
            f"non-private {best(memory, 'plain'):.0f} MB; "
            + "; ".join(f"{mode} {value:.0f} MB" for mode, value in lean.items()),
            f"{own / min(lean.values()):.2f} of its leanest",
            "< Opacus's leanest",
            verdict(own < min(lean.values())),
            "1",
            "largest resident set over that before the first step, a process each",
        ),
    ]


def epochs(options: Options) -> list[Row]:
    """20 epochs of DP-SGD on the small network, from the time of a step."""
    found = []
    for seeds in (1, 3):
        step = private("tanh", seeds, LARGE)
        seconds = times({"ours": step}, 3 * options.runs)["ours"]
        minutes = seconds * EPOCHS * math.ceil(EXAMPLES / LARGE) / 60
        found.append(
            Row(
                f"{EPOCHS} epochs of DP-SGD, network tanh, {seeds} {'seeds' if seeds > 1 else 'seed'}",
                f"{minutes:.1f} minutes",
                "-",
                f"{1e3 * seconds:.0f} ms a step of {LARGE}",
                f"< {MINUTES} minutes" if seeds == 1 else "-",
                verdict(minutes < MINUTES) if seeds == 1 else "-",
                "1",
                f"extrapolated from {3 * options.runs} steps of {math.ceil(EXAMPLES / LARGE)} an epoch",
            )
        )
    return found


def best(values: dict[str, float], who: str) -> float:
    """The least over memory formats."""
    return min(value for key, value in values.items() if key.split(",")[0] == who)


def times(steps: dict[str, Step], rounds: int) -> dict[str, float]:
    """Median seconds of the processor, the steps in turns; before each a step untimed, as in training."""
    found: dict[str, list[float]] = {who: [] for who in steps}
    for _ in range(rounds):
        for who, step in steps.items():
            step()
            start = time.process_time()
            step()
            found[who].append(time.process_time() - start)
    return {who: median(values) for who, values in found.items()}


def peak(name: str, who: str, steps: int = 4) -> float:
    """MB that the resident set grows by at most, from before the first step."""
    step = sides(name)[who]()
    Path("/proc/self/clear_refs").write_text("5")  # resets the mark of the largest
    before = resident("VmRSS")
    for _ in range(steps):
        step()
    return resident("VmHWM") - before


def resident(line: str) -> float:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.partition(f"{line}:")[2].split()[0]) / 1024
