"""The methods by name.

A module's first method has the module's name, any other its class's: `DpSghmcLi2019` is `dp_sghmc_li2019`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pkgutil import iter_modules

from dplangevin import methods
from dplangevin.checks import require
from dplangevin.methods import Method
from dplangevin.methods.dp_sgld import DpSgldWang2015
from dplangevin.methods.hybrid import Hybrid
from dplangevin.methods.objpert import ObjPert, ObjPertPure
from dplangevin.methods.ops import Ops
from dplangevin.methods.outpert import Ridge
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.text import meant

# methods under a name that does not follow from their class
NAMED: Mapping[str, Callable[..., Method]] = {
    "nonprivate": Ridge,
    "objpert_pure": ObjPertPure,
    "objpert_tight": partial(ObjPert, accountant=Tight(), share=0.05),
    "ops_gdp": partial(Ops, bound="gdp", precision=1.0),
    "hybrid_sgld": partial(Hybrid, second=DpSgldWang2015()),
}


def _classes() -> Iterator[tuple[str, Callable[..., Method]]]:
    for info in iter_modules(methods.__path__):
        module = import_module(f"{methods.__name__}.{info.name}")
        own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
        for i, found in enumerate(each for each in own if hasattr(each, "plan")):
            if found not in NAMED.values():
                yield re.sub(r"(?<!^)(?=[A-Z])", "_", found.__name__).lower() if i else info.name, found


#: Name -> class of every method of the package, or a call that makes it with other settings.
METHODS: Mapping[str, Callable[..., Method]] = {**NAMED, **dict(_classes())}


def named(method: str | Method) -> Method:
    """Return the method of that name; return a `Method` unchanged."""
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
