import numpy as np
from diffprivlib.models import LinearRegression

others, y = [[0.05], [0.05], [0.1], [0.05], [0.05]], [1, 1, 0, 1, 0, 1]


def event(record, seed):
    model = LinearRegression(
        epsilon=1.0, bounds_X=(0, 1), bounds_y=(-1, 1), fit_intercept=False, random_state=seed
    )
    return abs(model.fit(np.array([record, *others]), np.array(y)).coef_[0]) < 10


p, q = (np.mean([event(record, seed) for seed in range(1000)]) for record in ([1.0], [0.0]))
print(f"rate of the event: {p:.4f} with 1, {q:.4f} with 0; the claim allows {np.exp(1) * q:.4f} with 1")
