"""delta(epsilon) of one step in closed form, at the digits of mpmath."""

from mpmath import mp, mpf


def normal(x: mpf) -> mpf:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def curve(q: mpf, first: mpf, second: mpf, x: mpf, epsilon: mpf) -> mpf:
    """P(X > x) - exp(epsilon) Q(X > x), P and Q mixtures of N(0, 1) and of N(first, 1), N(second, 1)."""
    return (1 - q) * normal(-x) * (1 - mp.exp(epsilon)) + q * (
        normal(first - x) - mp.exp(epsilon) * normal(second - x)
    )


def gaussian(mu: mpf, epsilon: mpf) -> mpf:
    """Return delta of mu-GDP."""
    return normal(mu / 2 - epsilon / mu) - mp.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


def removal(q: mpf, mu: mpf, e: mpf) -> mpf:
    return curve(q, mu, mpf(0), mp.log(1 + (mp.exp(e) - 1) / q) / mu + mu / 2, e)


def addition(q: mpf, mu: mpf, e: mpf) -> mpf:
    if e >= -mp.log(1 - q):
        return mpf(0)
    return curve(q, mpf(0), -mu, -mp.log(1 + (mp.exp(-e) - 1) / q) / mu - mu / 2, e)


def replacement(q: mpf, mu: mpf, e: mpf) -> mpf:
    turned = mp.asinh((1 - q) / q * mp.exp(mu * mu / 2) * mp.sinh(e / 2))
    return curve(q, mu, -mu, (turned + e / 2) / mu, e)
