"""A fused step of clipped DP-SGD, in this checkout and in others: what a change costs.

Usage: python benchmarks/step.py [CHECKOUT ...], for example one of `git worktree add`. The checkouts take turns,
`ROUNDS` times, each in a process of its own on one thread. The best and the median time of a step are printed.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS, STEPS = 5, 400
RECORDS, FEATURES, SEEDS, BUDGETS, BATCH = 32_561, 109, 10, 11, 180  # Adult


def timed() -> float:
    """Return the processor time of a step in us, the best of four runs."""
    import time

    import torch

    from dplangevin.problems.chain import Chain
    from dplangevin.problems.glm import Glm
    from dplangevin.problems.losses import LOGISTIC
    from dplangevin.problems.sampling import Sampling
    from dplangevin.samplers.chains.loop import run

    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(1, RECORDS, FEATURES, generator=rng)
    y = torch.where(torch.rand(1, RECORDS, generator=rng) < 0.5, 1.0, -1.0)
    problem = Glm(x / x.norm(dim=-1, keepdim=True), y, LOGISTIC)

    def chains(steps: int) -> list[Chain]:
        ones = torch.ones(steps, dtype=torch.float64)
        sampling = Sampling("subset", BATCH, BATCH * steps / RECORDS)
        return [Chain(0.1 * ones, (1.0 + e) * ones, sampling, clip=0.3) for e in range(BUDGETS)]

    run(problem, chains(20), SEEDS, rng)
    found = []
    for _ in range(4):
        start = time.process_time()
        run(problem, chains(STEPS), SEEDS, rng)
        found.append((time.process_time() - start) / STEPS * 1e6)
    return min(found)


def main(checkouts: list[str]) -> None:
    """Print a line for each checkout."""
    here = str(Path(__file__).parents[1])
    for folder in checkouts:
        if not Path(folder, "src/dplangevin").is_dir():
            sys.exit(f"{folder} is no checkout: it has no src/dplangevin")
    times: dict[str, list[float]] = {folder: [] for folder in [here, *checkouts]}
    for _ in range(ROUNDS):
        for folder, found in times.items():
            env = {**os.environ, "PYTHONPATH": f"{folder}/src", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                [sys.executable, __file__, "--one"], env=env, stdout=subprocess.PIPE, check=True
            )
            found.append(float(done.stdout))
    for folder, found in times.items():
        print(
            f"{folder}: {min(found):.0f} us, median {statistics.median(found):.0f} us, {SEEDS * BUDGETS} chains"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["--one"]:
        print(timed())
    else:
        main(sys.argv[1:])
