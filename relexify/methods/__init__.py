"""Initialisation methods: evidence in, a Mixture out. One paper, one file; each registers itself in `METHODS`.

`relexify methods` lists them, and `docs/methods.md` describes each. `registry.py` defines a method, `inputs.py` what it
may use. `copying.py`, `translations.py`, `translated_neighbours.py` and `token_space.py` are shared parts.

The package has every name that `__all__` of one of its modules lists, so a new file needs no entry here:
`rx.methods.fvt` is the function of `methods/fvt.py`, and not the module.
"""

from importlib import import_module
from pkgutil import iter_modules

__all__: list[str] = []

for _info in iter_modules(__path__):
    _module = import_module(f"{__name__}.{_info.name}")
    __all__ += _module.__all__
    globals().update({name: getattr(_module, name) for name in _module.__all__})
