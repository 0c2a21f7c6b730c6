"""Samplers and minimisers: the one noisy loop, kernels, posterior samples, private minimisation, diagnostics."""
