"""The work of the commands. A module of this package is executed at the first access to one of its attributes.

So completion and `--help` of a command do not import the modules that only its work needs.
"""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING


def _executed_later(name: str) -> ModuleType:
    """Return the module of this name, to be executed at the first access to an attribute. Raises AttributeError."""
    spec = find_spec(f"{__name__}.{name}")
    if spec is None or spec.loader is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    globals()[name] = module
    return module


if not TYPE_CHECKING:  # otherwise mypy accepts any name as a module
    __getattr__ = _executed_later
