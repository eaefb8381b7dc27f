"""
What commands do. A module of this room is executed when something of it is first used.

So a command is completed, and shows its help, without all that it imports to work.
"""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING


def _executed_later(name: str) -> ModuleType:
    """Give the module of that name, which its first attribute executes. Raises AttributeError."""
    spec = find_spec(f"{__name__}.{name}")
    if spec is None or spec.loader is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    globals()[name] = module
    return module


if not TYPE_CHECKING:  # mypy would take any name for a module
    __getattr__ = _executed_later
