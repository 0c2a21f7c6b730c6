"""Accountants, one in each file: the papers' own compositions, and tight ones.

The proven epsilon of every method is by `tight`.  It takes the closed forms of `analytic_gaussian` and
`objective`, and `composition` of the pairs of `profiles` and `allocation`.  A method is calibrated by an
accountant of its own unless a setting names another:

* DP-SGD, DPVI and li2019's DP-SGLD: `li2019`, the moments accountant.
* OPS and the samplers of wang2015: `wang2015`, the paper's composition.
* Objective perturbation: `kifer2012`, or `chaudhuri2011` for pure privacy.
* Output perturbation: `analytic_gaussian`.  PATE: `papernot2018`.
* DP-Langevin of ryffel2022 and descent on all rows: `tight` itself.

`ryffel2022` (the paper's bound for the last iterate), `bok2024` (last iterate), `rdp`, and `google` (dp-accounting,
as a reference) price the same events.
"""
