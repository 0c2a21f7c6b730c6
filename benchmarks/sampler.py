"""The posterior sampler of OPS on Adult: the two kernels for the ball, by effective sample size per second."""

from functools import partial
from statistics import median

import adult
from hydra.utils import instantiate
from measure import Options, Row, timed
from omegaconf import OmegaConf

from dplangevin import random
from dplangevin.methods import released
from dplangevin.privacy import Budget

EPSILONS = (1.0, 10.0)
RADIUS = 10.0
DRAWS = 300


def rows(options: Options) -> list[Row]:
    cfg = adult.config(options.scale)
    problem = adult.problem(cfg)
    found = []
    for epsilon in EPSILONS:
        speeds: dict[str, list[float]] = {"sphere": [], "reflect": []}
        r_hats: dict[str, list[float]] = {"sphere": [], "reflect": []}
        for run in range(options.runs):
            for boundary in speeds:
                settings = {"boundary": boundary, "block": DRAWS, "max_draws": DRAWS}
                overrides = {"bound": "range", "radius": RADIUS, "sampler": settings}
                method = instantiate(OmegaConf.merge(cfg.method.ops, overrides))
                rng = random.generator(cfg.seed, f"bench/sampler/{run}")
                given = method, problem, [Budget(epsilon, cfg.delta)], cfg.repeats, rng
                (release, _), took = timed(partial(released, *given))
                speeds[boundary].append(float(release.info["ess"].min()) / took)
                r_hats[boundary].append(float(release.info["r_hat"].max()))
        ours, peer = ({"speed": median(speeds[b]), "r_hat": max(r_hats[b])} for b in speeds)
        found.append(
            Row(
                f"OPS sampler, eps = {epsilon:g}, D = {RADIUS:g}: sphere against reflect",
                f"{ours['speed']:.1f} ESS/s, R-hat {ours['r_hat']:.3f}",
                f"{peer['speed']:.1f} ESS/s, R-hat {peer['r_hat']:.3f}",
                f"{ours['speed'] / peer['speed']:.1f} times",
                "-",
                "-",
                str(options.threads),
                f"median ESS/s and worst R-hat of {options.runs} runs in turns; {cfg.repeats} chains, "
                f"{DRAWS} draws each; worst coordinate; time with centre and warm-up",
            )
        )
    return found
