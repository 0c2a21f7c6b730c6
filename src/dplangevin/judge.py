"""What a classifier that knows the classes says of generated images: which of them a generator makes, and how evenly.

An instrument, trained on all labels of the training images without privacy.  What it says of a generator is
post-processing of that generator, and is part of no release.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from dplangevin import random
from dplangevin.chains.sampling import Sampling
from dplangevin.checks import positive, require
from dplangevin.evaluate import all_scores
from dplangevin.methods import released
from dplangevin.methods.dp_sgd import Sgd
from dplangevin.plan import TABLES
from dplangevin.privacy import Budget
from dplangevin.problems.gan import GanProblem
from dplangevin.problems.network import NetworkProblem

GREYS = 16  # of a pixel in the table, a hexadecimal digit


class Judge:
    """The discriminator's layers as a classifier of the K classes, trained by SGD with momentum.

    images: how many are generated for the scores.  sure: probability from which a class is recognised.  least: share of
    the images from which a class is covered.  shown: images of the first seed in the table.  step, batch, epochs: of
    its training.
    """

    def __init__(
        self,
        problem: GanProblem,
        seed: int,
        *,
        images: int = 1000,
        sure: float = 0.9,
        least: float = 0.01,
        shown: int = 10,
        step: float = 0.05,
        batch: int = 64,
        epochs: float = 2.0,
    ) -> None:
        positive(images=images, least=least, shown=shown)
        require(1 / problem.classes < sure < 1, f"sure = {sure} must be in (1/{problem.classes}, 1)")
        require(problem.every_label is not None, "a judge learns from all labels, which this problem lacks")
        self.problem, self.seed, self.images, self.sure, self.least = problem, seed, images, sure, least
        self.shown, self.sgd = shown, (step, batch, epochs)
        self.theta = None if problem.adversary is None else self.trained()

    def trained(self) -> Tensor:
        """``(1, 1, 1, d)``."""
        step, batch, epochs = self.sgd
        sampling = Sampling("poisson", batch, epochs)
        method = Sgd(step, sampling, unit="absolute", schedule="cosine", momentum=0.9, precision=0.0)
        of, rng = self.classifier(self.problem.x_test), random.generator(self.seed, "judge")
        return released(method, of, [Budget(math.inf, 1e-5)], 1, rng)[0].theta

    def classifier(self, x: Tensor) -> NetworkProblem:
        """The classifier as a problem, to be scored on images x."""
        assert self.problem.every_label is not None
        return NetworkProblem(
            self.problem.network, self.problem.x, self.problem.every_label, x, self.problem.y_test
        )

    def generated(self, theta: Tensor, images: int) -> Tensor:
        """``(S, E, images, C, H, W)`` in [-1, 1], of theta ``(S, E, d)``; the same latent variables for all."""
        assert self.problem.adversary is not None
        rng = random.generator(self.seed, "latent variables that are judged")
        z = torch.randn(images, self.problem.adversary.generator.latent, generator=rng)
        return self.problem.generated(theta, z.to(theta.device))

    def metrics(self, theta: Tensor) -> dict[str, Tensor]:
        """Of the last iterate kept of ``(S, E, kept, d)``, each ``(S, E)``; {} without a generator but for the first.

        accuracy_single: on the test rows, where several iterates are averaged otherwise.  recognised: share of the
        generated images of which it is sure.  digits_covered: classes that at least the share `least` of the images are
        recognised as.  digit_entropy: of the classes of recognised images, in nats, at most ln K; 0 where there are
        none.
        """
        last, found = theta[:, :, -1], {}
        if theta.shape[2] > 1:
            found["accuracy_single"] = all_scores(self.problem.predict(last), self.problem.y_test)["accuracy"]
        if self.theta is None:
            return found
        images = self.generated(last, self.images).cpu()
        p = self.classifier(images.flatten(0, 2)).predict(self.theta[:, :, -1])[0, 0, :, :-1]
        return found | coverage(p.view(*images.shape[:3], -1), self.sure, self.least)

    def table(self, where: Sequence[Sequence[Any]], theta: Tensor) -> pd.DataFrame:
        """`plan.TABLES["samples"]`: the first images of the first seed.  where: run, variant, scaling and epsilon of
        every chain.  pixels: a hexadecimal digit each, 0 black, row by row."""
        rows: list[list[Any]] = []
        if self.theta is not None:
            last = theta[:1, :, -1].nan_to_num(0.0, 0.0, 0.0)
            greys = ((self.generated(last, self.shown)[0] + 1) / 2 * GREYS).long().clamp(0, GREYS - 1)
            for names, images in zip(where, greys.cpu(), strict=True):
                texts = ("".join(f"{value:x}" for value in image.flatten().tolist()) for image in images)
                rows += [[*names, i, text] for i, text in enumerate(texts)]
        return pd.DataFrame(rows, columns=TABLES["samples"])


def coverage(p: Tensor, sure: float, least: float) -> dict[str, Tensor]:
    """recognised, digits_covered and digit_entropy, see `Judge.metrics`, of probabilities ``(S, E, images, K)``."""
    confidence, digit = p.double().max(-1)
    counted = torch.nn.functional.one_hot(digit, p.shape[-1]) * (confidence >= sure)[..., None]
    share = counted.double().mean(2)  # of the images that are recognised as each class
    recognised = share.sum(-1)
    of_recognised = share / recognised.clamp(min=1e-300)[..., None]
    entropy = -torch.xlogy(of_recognised, of_recognised).sum(-1)
    covered = (share >= least).sum(-1).double()
    return {"recognised": recognised, "digits_covered": covered, "digit_entropy": entropy}
