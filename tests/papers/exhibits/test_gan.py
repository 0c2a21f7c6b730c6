"""The exhibits of the GAN: each number and picture from the rows that it is of."""

import pandas as pd

from dplangevin.papers.exhibits import gan

PROBLEMS = {"gan labels=private": "Private", "gan labels=public": "Public"}
COVERAGE = {"recognised": 0.5, "digits_covered": 8.0, "digit_entropy": 2.0}


def test_pictures_stand_in_the_row_of_their_learner() -> None:
    columns = ["problem", "block", "method", "run", "variant", "epsilon", *COVERAGE, "image", "pixels"]
    frame = pd.DataFrame(
        [
            ["gan", "equal", "dp_sgd", "dp_sgd", f"problem.labels={labels}", e, 0.5, 8.0, 2.0, i, pixels * 2]
            for labels in ("private", "public")
            for e, pixels in ((0.2, "0f"), (8.0, "f0"))
            for i in range(10)
        ],
        columns=columns,
    )
    figure = gan.pictures(frame, problems=PROBLEMS, runs=["dp_sgd"], text="", title="t")
    drawn = [ax for ax in figure.axes if ax.images]
    assert len(drawn) == 4
    first = next(ax for ax in drawn if "ε 8" in ax.get_title()).images[0].get_array()
    assert first is not None
    assert first.shape == (2, 20)
    assert first[0, :2].tolist() == [1.0, 0.0]
    assert len(gan.pictures_summary(frame, problems=PROBLEMS)) == 4
