"""The methods by name, with the settings of their classes."""

from collections.abc import Callable, Mapping
from functools import partial

from dplangevin.checks import require
from dplangevin.methods import Method
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
from dplangevin.methods.sgld import Sgld
from dplangevin.text import meant

METHODS: Mapping[str, Callable[..., Method]] = {
    "nonprivate": Ridge,
    "sgd": Sgd,
    "sgld": Sgld,
    "ops": Ops,
    "ops_gdp": partial(Ops, bound="gdp", precision=1.0),
    "objpert": ObjPert,
    "objpert_pure": ObjPertPure,
    "outpert": OutPert,
    "dp_sgd": DpSgd,
    "dp_sgld": DpSgldWang2015,
    "dp_sgld_li2019": DpSgldLi2019,
    "dp_sgld_ryffel2022": DpSgldRyffel2022,
    "dp_sghmc": DpSghmc,
    "dp_sghmc_li2019": DpSghmcLi2019,
    "sghmc": Sghmc,
    "dp_sgnht": DpSgnht,
    "dp_sgfs": DpSgfs,
    "hybrid": Hybrid,
    "hybrid_sgld": partial(Hybrid, second=DpSgldWang2015()),
    "dpvi": Dpvi,
    "pate": Pate,
}


def named(method: str | Method) -> Method:
    """Return the method of that name; return a `Method` unchanged.

    Raises
    ------
    ValueError
        For an unknown name, with similar names in the message; and for an object that is no method.

    >>> named("dpvi").clip
    1.0
    """
    if isinstance(method, type):
        raise ValueError(f"method {method.__name__} is a class: give an instance, {method.__name__}()")
    if not isinstance(method, str):
        acts = all(callable(getattr(method, part, None)) for part in ("plan", "release"))
        require(
            acts, f"method {method!r} has no plan and release: give a name of dplangevin.METHODS or a Method"
        )
        return method
    if method not in METHODS:
        raise ValueError(f"method {method!r} is unknown{meant(method, METHODS)}; known: {', '.join(METHODS)}")
    return METHODS[method]()
