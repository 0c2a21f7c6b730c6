"""Posterior sampling and Langevin dynamics under differential privacy: the claims of three papers, checked.

The library consists of `learn`, `price`, `budget_for`, `attack` and `audit` (see `dplangevin.library`), the methods,
and `PrivateClassifier` for scikit-learn.  A name is imported only when it is used.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dplangevin.attacks.audit import Audit
    from dplangevin.attacks.learners.search import LearnerAudit
    from dplangevin.data.encoding import encode
    from dplangevin.estimator import Privacy, PrivateClassifier
    from dplangevin.library import Answer, attack, audit, budget_for, facts, learn, price
    from dplangevin.methods import Method
    from dplangevin.methods.dp_gd import DpGd
    from dplangevin.methods.dp_sgd import DpSgd, Sgd
    from dplangevin.methods.dp_sgfs import DpSgfs
    from dplangevin.methods.dp_sghmc import DpSghmc, DpSghmcLi2019, DpSgnht, Sghmc
    from dplangevin.methods.dp_sgld import DpSgldWang2015
    from dplangevin.methods.dp_sgld_li2019 import DpSgldLi2019, Sgld
    from dplangevin.methods.dp_sgld_ryffel2022 import DpSgldRyffel2022
    from dplangevin.methods.dpvi import Dpvi
    from dplangevin.methods.hybrid import Hybrid
    from dplangevin.methods.objpert import ObjPert, ObjPertPure
    from dplangevin.methods.ops import Ops
    from dplangevin.methods.outpert import OutPert, Ridge
    from dplangevin.methods.pate import Pate
    from dplangevin.methods.registry import METHODS
    from dplangevin.privacy import Budget, Guarantee
    from dplangevin.privacy.accountants.tight import Tight
    from dplangevin.problems import Facts
    from dplangevin.problems.glm import Glm
    from dplangevin.problems.sampling import Sampling
    from dplangevin.receipt.measure import StepCheck, check_step
    from dplangevin.receipt.record import Receipt
    from dplangevin.receipt.watch import watch

# name -> its module, by the imports above, which only type checkers carry out
_HOMES = {
    alias.name: str(node.module)
    for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8")))
    if isinstance(node, ast.ImportFrom) and str(node.module).startswith(__name__)
    for alias in node.names
}
__all__ = [  # noqa: RUF022
    "Answer", "Audit", "Budget", "DpGd", "DpSgd", "DpSgfs", "DpSghmc", "DpSghmcLi2019", "DpSgldLi2019",
    "DpSgldRyffel2022", "DpSgldWang2015", "DpSgnht", "Dpvi", "Facts", "Glm", "Guarantee", "Hybrid",
    "LearnerAudit", "METHODS", "Method", "ObjPert", "ObjPertPure", "Ops", "OutPert", "Pate", "Privacy",
    "PrivateClassifier", "Receipt", "Ridge", "Sampling", "Sgd", "Sghmc", "Sgld", "StepCheck", "Tight", "attack",
    "audit", "budget_for", "check_step", "encode", "facts", "learn", "price", "watch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
