"""A classifier of generated images, trained without privacy on all labels; its scores are no part of any release."""

import math
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from dplangevin import random
from dplangevin.methods import Plan, released
from dplangevin.methods.dp_sgd import Sgd
from dplangevin.methods.evaluate import all_scores
from dplangevin.pipeline.observers import Metrics, Observer, Seen, Tables
from dplangevin.pipeline.plan import TABLES
from dplangevin.privacy import Budget
from dplangevin.problems.adversarial import GanProblem
from dplangevin.problems.network import NetworkProblem
from dplangevin.problems.sampling import Sampling

IMAGES = 1000  # images that are generated for the scores
SURE = 0.9  # an image is recognised if its most probable class has at least this probability
LEAST = 0.01  # a class is covered if at least this share of the images is recognised as it
SHOWN = 10  # images of the first seed in the table
GREYS = 16  # grey levels of a pixel in the table, one hexadecimal digit
BATCH, EPOCHS = 64, 2.0  # of the classifier's training


class DigitClassifier(Observer):
    """The discriminator's layers as a classifier of the K classes, trained by SGD with momentum."""

    tables = ("samples",)

    def __init__(self, problem: GanProblem, plan: Plan, seeds: int, delta: float, seed: int) -> None:
        self.problem: Any = problem
        self.seed, self.theta = seed, None
        if problem.adversary is not None:
            sampling = Sampling("poisson", BATCH, EPOCHS)
            method = Sgd(0.05, sampling, unit="absolute", schedule="cosine", momentum=0.9, precision=0.0)
            of, rng = self.classifier(problem.x_test), random.generator(seed, "judge")
            self.theta = released(method, of, [Budget(math.inf, 1e-5)], 1, rng)[0].theta  # (1, 1, 1, d)

    def classifier(self, x: Tensor) -> NetworkProblem:
        """Return the classifier as a problem whose test rows are the images x."""
        of = self.problem
        return NetworkProblem(of.network, of.x, of.every_label, x, of.y_test)

    def generated(self, theta: Tensor, images: int) -> Tensor:
        """Return images ``(S, E, images, C, H, W)`` in [-1, 1]; each theta gets the same latent variables."""
        rng = random.generator(self.seed, "latent variables that are judged")
        z = torch.randn(images, self.problem.adversary.generator.latent, generator=rng)
        return self.problem.generated(theta, z.to(theta.device))

    def metrics(self, seen: Seen, metrics: Metrics) -> dict[str, Tensor]:
        """Return `coverage` of the last iterate, and its accuracy where the usual one is of several."""
        last, found = seen.theta[:, :, -1], {}
        if seen.theta.shape[2] > 1:
            scores = all_scores(self.problem.predict(last), self.problem.y_test)
            found["accuracy_single"] = scores["accuracy"]
        if self.theta is None:
            return found
        images = self.generated(last, IMAGES).cpu()
        p = self.classifier(images.flatten(0, 2)).predict(self.theta[:, :, -1])[0, 0, :, :-1]
        return found | coverage(p.view(*images.shape[:3], -1))

    def rows(self, seen: Seen) -> Tables:
        """Return the first images: `pixels` has one hexadecimal digit for each pixel, row by row; 0 is black."""
        task, rows = seen.task, list[list[Any]]()
        if self.theta is not None:
            last = seen.theta[:1, :, -1]
            greys = ((self.generated(last, SHOWN)[0] + 1) / 2 * GREYS).long().clamp(0, GREYS - 1)
            for epsilon, images in zip(task.epsilons, greys.cpu(), strict=True):
                texts = ("".join(f"{value:x}" for value in image.flatten().tolist()) for image in images)
                names = task.run.name, task.variant, task.scaling, epsilon
                rows += [[*names, i, text] for i, text in enumerate(texts)]
        return {"samples": pd.DataFrame(rows, columns=TABLES["samples"])}


def coverage(p: Tensor, sure: float = SURE, least: float = LEAST) -> dict[str, Tensor]:
    """Return metrics of the probabilities p ``(S, E, n, K)`` of the classes of n images.

    - `recognised`: share of the images with a class of probability at least `sure`.
    - `digits_covered`: number of classes that at least the share `least` of the images is recognised as.
    - `digit_entropy`: entropy of the classes of recognised images, in nats, at most ln K; 0 if there are none.
    """
    confidence, digit = p.double().max(-1)
    counted = torch.nn.functional.one_hot(digit, p.shape[-1]) * (confidence >= sure)[..., None]
    share = counted.double().mean(2)  # share of the images that are recognised as each class
    recognised = share.sum(-1)
    of_recognised = share / recognised.clamp(min=1e-300)[..., None]
    entropy = -torch.xlogy(of_recognised, of_recognised).sum(-1)
    covered = (share >= least).sum(-1).double()
    return {"recognised": recognised, "digits_covered": covered, "digit_entropy": entropy}
