import numpy as np
from diffprivlib.models.naive_bayes import GaussianNB

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
    np.array([1, 0, 0, 0, 0, 0]),
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
    np.array([0, 0, 0, 0, 0, 0]),
)


def event(X, y, seed):
    model = GaussianNB(epsilon=1.0, bounds=(-1, 1), random_state=seed).fit(X, y)
    return np.asarray(model.classes_).shape == (2,)


p, q = (np.mean([event(*D, seed) for seed in range(200)]) for D in (D1, D2))
print(f"rate of the event: {p:.4f} on D1, {q:.4f} on D2; the claim allows {np.exp(1) * q + 0:.4f} on D1")
