import numpy as np
from interpret.glassbox._ebm._ebm import DPExplainableBoostingClassifier

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
    np.array([1, 1, 0, 1, 0, 1]),
)
D2 = (
    np.array(
        [
            [0.05, 0.08660000000000001],
            [-0.05, 0.08660000000000001],
            [-0.1, 0.0],
            [-0.05, -0.08660000000000001],
            [0.05, -0.08660000000000001],
        ]
    ),
    np.array([1, 0, 1, 0, 1]),
)


def event(X, y, seed):
    model = DPExplainableBoostingClassifier(
        feature_types=("continuous", "continuous"),
        max_rounds=10,
        n_jobs=1,
        random_state=seed,
        epsilon=1.0,
        delta=1e-05,
        privacy_bounds=((-1, 1), (-1, 1)),
    ).fit(X, y)
    return np.asarray(model.bag_weights_)[0] >= 6.0


p, q = (np.mean([event(*D, seed) for seed in range(200)]) for D in (D1, D2))
print(f"rate of the event: {p:.4f} on D1, {q:.4f} on D2; the claim allows {np.exp(1) * q + 1e-05:.4f} on D1")
