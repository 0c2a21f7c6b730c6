"""Accountants, one in each file: the papers' own compositions, and tight ones.

The proven epsilon of every method is by `tight`. A method is calibrated by an accountant of its own unless a setting
names another:

* DP-SGD, DPVI and li2019's DP-SGLD: `li2019`, the moments accountant.
* OPS and the samplers of wang2015: `wang2015`, the paper's composition.
* Objective perturbation: `kifer2012`, or `chaudhuri2011` for pure privacy.
* Output perturbation: `analytic_gaussian`. PATE: `papernot2018`.
* DP-Langevin of ryffel2022 and descent on all rows: `tight` itself.
"""
