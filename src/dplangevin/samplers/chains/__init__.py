"""Chains of noisy clipped gradient steps: `loop` adds the noise (or `Glm`, in a fused step), `steps` has step sizes."""
