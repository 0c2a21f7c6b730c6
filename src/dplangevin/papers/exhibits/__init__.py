"""Figures and tables made from results.

`read` reads the result files. The other modules are pure functions of the frames that `read` returns.
"""
