import numpy as np
from diffprivlib.models import KMeans

others = [[0.05, 0.0866], [-0.05, 0.0866], [-0.1, 0.0], [-0.05, -0.0866], [0.05, -0.0866]]


def event(record, seed):
    model = KMeans(2, epsilon=1.0, bounds=(-1, 1), random_state=seed).fit(np.array([record, *others]))
    guess = np.array([[1.0, 0.0], *others])  # the inertia if the record were (1, 0)
    inertia = ((guess[:, None] - model.cluster_centers_) ** 2).sum(2).min(1).sum()
    return abs(model.inertia_ - inertia) < 1e-9


p, q = (np.mean([event(record, seed) for seed in range(200)]) for record in ([1.0, 0.0], [-1.0, 0.0]))
print(
    f"rate of the event: {p:.4f} with (1, 0), {q:.4f} with (-1, 0); the claim allows {np.exp(1) * q:.4f} with (1, 0)"
)
