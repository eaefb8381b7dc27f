"""
Finding placers by name among the installed packages.

A package offers a placer through an entry point of the group `rackspan.placers`: the entry point's name is what
`spec.placement.placer` says, its object a class without constructor arguments that implements `Placer`. This lives
outside the core because it reads what is installed.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points
from types import MappingProxyType

from rackspan.core.placement import Placer

GROUP = "rackspan.placers"


class PlacerLoadError(RuntimeError):
    """An entry point that does not give a placer; the message names it and the package it comes from."""


def load_placers() -> Mapping[str, Placer]:
    """
    Load every installed placer by its name.

    Raises PlacerLoadError when one cannot be imported, is no placer, or two packages claim one name.
    """
    found: dict[str, Placer] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        package = point.dist.name if point.dist else "an unknown package"
        if point.name in found:
            raise PlacerLoadError(f'two installed packages offer the placer "{point.name}", one of them is {package}')
        try:
            placer = point.load()()
        except Exception as error:
            raise PlacerLoadError(f'the placer "{point.name}" of {package} cannot be loaded: {error}') from error
        if not isinstance(placer, Placer):
            raise PlacerLoadError(f'"{point.value}", the placer "{point.name}" of {package}, has no method place')
        found[point.name] = placer
    return MappingProxyType(found)
