"""
Finding placers by name among the installed packages.

A package offers a placer through an entry point of the group `rackspan.placers`: the entry point's name is what
`spec.placement.placer` says, its object a class without constructor arguments that implements `Placer`. This lives
outside the core because it reads what is installed.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
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
    points = sorted(entry_points(group=GROUP), key=lambda point: (point.name, _package(point)))
    for one, other in pairwise(points):
        if one.name == other.name:
            raise PlacerLoadError(f'two packages offer the placer "{one.name}": {_package(one)} and {_package(other)}')
    return MappingProxyType({point.name: _loaded(point) for point in points})


def _loaded(point: EntryPoint) -> Placer:
    try:
        placer = point.load()()
    except Exception as error:
        raise PlacerLoadError(f'the placer "{point.name}" of {_package(point)} cannot be loaded: {error}') from error
    if not isinstance(placer, Placer):
        raise PlacerLoadError(f'the placer "{point.name}" of {_package(point)}, {point.value}, has no method place')
    return placer


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown package"
