"""Bayesian learning by Langevin dynamics under differential privacy: the claims of three papers, checked."""
