import numpy as np
from diffprivlib.models.logistic_regression import LogisticRegression

D1 = (
    np.array(
        [
            [1.0, 0.0],
            [0.05, 0.08660000000000001],
            [-0.05, 0.08660000000000001],
            [-0.1, 0.0],
            [-0.05, -0.08660000000000001],
            [0.05, -0.08660000000000001],
        ]
    ),
    np.array([0, 0, 0, 0, 0, 0]),
)
D2 = (
    np.array(
        [
            [1.0, 0.0],
            [0.05, 0.08660000000000001],
            [-0.05, 0.08660000000000001],
            [-0.1, 0.0],
            [-0.05, -0.08660000000000001],
            [0.05, -0.08660000000000001],
        ]
    ),
    np.array([1, 0, 0, 0, 0, 0]),
)


def event(X, y, seed):
    try:
        model, raised = LogisticRegression(epsilon=1.0, data_norm=1.0, random_state=seed).fit(X, y), ""
    except Exception as error:
        raised = f"{type(error).__name__}: " + " ".join(str(error).split())
    return raised.startswith(
        "ValueError: This solver needs samples of at least 2 classes in the data, but the data contains only one class: 0"
    )


p, q = (np.mean([event(*D, seed) for seed in range(200)]) for D in (D1, D2))
print(f"rate of the event: {p:.4f} on D1, {q:.4f} on D2; the claim allows {np.exp(1) * q + 0:.4f} on D1")
