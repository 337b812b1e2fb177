"""Initialisation methods: evidence in, a Mixture out. One paper, one file; each registers itself in `METHODS`.

`relexify methods` lists them, and `docs/methods.md` describes each. `registry.py` defines a method, `inputs.py`
contains its possible inputs, and `parts/` the components that several methods share.

The package exports all names in the `__all__` of its modules, so a new file needs no entry here: `rx.methods.fvt` is
the function of `methods/fvt.py`, not the module.
"""

from importlib import import_module
from pkgutil import walk_packages

__all__: list[str] = []

for _info in walk_packages(__path__, prefix=f"{__name__}."):
    if _info.ispkg:
        continue
    _module = import_module(_info.name)
    __all__ += _module.__all__
    globals().update({name: getattr(_module, name) for name in _module.__all__})
