"""Chains of noisy clipped gradient steps: `loop` adds the noise, `steps` gives step sizes."""
