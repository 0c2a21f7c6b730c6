"""Posterior sampling and Langevin dynamics under differential privacy: the claims of three papers, checked.

The library consists of `learn`, `price`, `calibrate`, `attack` and `audit` (see `dplangevin.library`), the methods,
and `PrivateClassifier` for scikit-learn.  A name is imported only when it is used.

>>> from dplangevin import Budget, PrivateClassifier, Problem, learn
>>> Budget(1.0, 1e-5)
Budget(epsilon=1.0, delta=1e-05)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dplangevin.attacks.audit import Audit
    from dplangevin.attacks.learners.search import LearnerAudit
    from dplangevin.data.encoding import encode
    from dplangevin.estimator import Privacy, PrivateClassifier
    from dplangevin.library import Answer, attack, audit, calibrate, facts, learn, price
    from dplangevin.methods import Method
    from dplangevin.methods.dp_gd import DpGd
    from dplangevin.methods.dp_sgd import DpSgd, Sgd
    from dplangevin.methods.dp_sgfs import DpSgfs
    from dplangevin.methods.dp_sghmc import DpSghmc, DpSghmcLi2019, Sghmc
    from dplangevin.methods.dp_sgld import DpSgldWang2015
    from dplangevin.methods.dp_sgld_li2019 import DpSgldLi2019
    from dplangevin.methods.dp_sgld_ryffel2022 import DpSgldRyffel2022
    from dplangevin.methods.dp_sgnht import DpSgnht
    from dplangevin.methods.dpvi import Dpvi
    from dplangevin.methods.hybrid import Hybrid
    from dplangevin.methods.objpert import ObjPert
    from dplangevin.methods.objpert_pure import ObjPertPure
    from dplangevin.methods.ops import Ops
    from dplangevin.methods.outpert import OutPert, Ridge
    from dplangevin.methods.pate import Pate
    from dplangevin.methods.registry import METHODS
    from dplangevin.methods.sgld import Sgld
    from dplangevin.privacy import Budget, Guarantee
    from dplangevin.privacy.accountants.tight import Tight
    from dplangevin.problems import Facts
    from dplangevin.problems.glm import Glm as Problem
    from dplangevin.problems.sampling import Sampling

# name -> its module, as above; after a colon its name there, if it is another
_HOMES = {
    "Answer": "dplangevin.library",
    "Audit": "dplangevin.attacks.audit",
    "Budget": "dplangevin.privacy",
    "DpGd": "dplangevin.methods.dp_gd",
    "DpSgd": "dplangevin.methods.dp_sgd",
    "DpSgfs": "dplangevin.methods.dp_sgfs",
    "DpSghmc": "dplangevin.methods.dp_sghmc",
    "DpSghmcLi2019": "dplangevin.methods.dp_sghmc",
    "DpSgldLi2019": "dplangevin.methods.dp_sgld_li2019",
    "DpSgldRyffel2022": "dplangevin.methods.dp_sgld_ryffel2022",
    "DpSgldWang2015": "dplangevin.methods.dp_sgld",
    "DpSgnht": "dplangevin.methods.dp_sgnht",
    "Dpvi": "dplangevin.methods.dpvi",
    "Facts": "dplangevin.problems",
    "Guarantee": "dplangevin.privacy",
    "Hybrid": "dplangevin.methods.hybrid",
    "LearnerAudit": "dplangevin.attacks.learners.search",
    "METHODS": "dplangevin.methods.registry",
    "Method": "dplangevin.methods",
    "ObjPert": "dplangevin.methods.objpert",
    "ObjPertPure": "dplangevin.methods.objpert_pure",
    "Ops": "dplangevin.methods.ops",
    "OutPert": "dplangevin.methods.outpert",
    "Pate": "dplangevin.methods.pate",
    "Privacy": "dplangevin.estimator",
    "PrivateClassifier": "dplangevin.estimator",
    "Problem": "dplangevin.problems.glm:Glm",
    "Ridge": "dplangevin.methods.outpert",
    "Sampling": "dplangevin.problems.sampling",
    "Sgd": "dplangevin.methods.dp_sgd",
    "Sghmc": "dplangevin.methods.dp_sghmc",
    "Sgld": "dplangevin.methods.sgld",
    "Tight": "dplangevin.privacy.accountants.tight",
    "attack": "dplangevin.library",
    "audit": "dplangevin.library",
    "calibrate": "dplangevin.library",
    "encode": "dplangevin.data.encoding",
    "facts": "dplangevin.library",
    "learn": "dplangevin.library",
    "price": "dplangevin.library",
}
__all__ = [  # noqa: RUF022
    "Answer",
    "Audit",
    "Budget",
    "DpGd",
    "DpSgd",
    "DpSgfs",
    "DpSghmc",
    "DpSghmcLi2019",
    "DpSgldLi2019",
    "DpSgldRyffel2022",
    "DpSgldWang2015",
    "DpSgnht",
    "Dpvi",
    "Facts",
    "Guarantee",
    "Hybrid",
    "LearnerAudit",
    "METHODS",
    "Method",
    "ObjPert",
    "ObjPertPure",
    "Ops",
    "OutPert",
    "Pate",
    "Privacy",
    "PrivateClassifier",
    "Problem",
    "Ridge",
    "Sampling",
    "Sgd",
    "Sghmc",
    "Sgld",
    "Tight",
    "attack",
    "audit",
    "calibrate",
    "encode",
    "facts",
    "learn",
    "price",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = _HOMES[name].partition(":")
    found = getattr(import_module(module), there or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
