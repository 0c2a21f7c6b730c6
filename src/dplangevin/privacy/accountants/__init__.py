"""Accountants, one in each file (docs/privacy.md); the proven epsilon of every method is by `tight`."""
