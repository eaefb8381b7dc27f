"""Loads placers from installed packages.

A package offers a placer by an entry point of the group `rackspan.placers`. The name of the entry point is the value of
`spec.placement.placer`, its object is a class without constructor arguments that implements `Placer`. This module is
not in the core because it reads the environment.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from types import MappingProxyType

from rackspan.core.placement import Placer

GROUP = "rackspan.placers"


class PlacerLoadError(RuntimeError):
    """An entry point does not provide a placer. The message names the entry point and its package."""


def load_placers() -> Mapping[str, Placer]:
    """Return all installed placers, by name.

    Raises PlacerLoadError if one cannot be imported, is not a `Placer`, or has the same name as another.
    """
    points = sorted(entry_points(group=GROUP), key=lambda point: (point.name, _package(point)))
    for one, other in pairwise(points):
        if one.name == other.name:
            raise PlacerLoadError(f'two packages offer the placer "{one.name}": {_package(one)} and {_package(other)}')
    return MappingProxyType({point.name: _load(point) for point in points})


def _load(point: EntryPoint) -> Placer:
    try:
        placer = point.load()()
    except Exception as error:
        raise PlacerLoadError(f'the placer "{point.name}" of {_package(point)} cannot be loaded: {error}') from error
    if not isinstance(placer, Placer):
        raise PlacerLoadError(f'the placer "{point.name}" of {_package(point)}, {point.value}, has no method place')
    return placer


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown package"
