"""Builders of the cluster trees that the tests of core use."""

from rackspan.core.rack_path import parse_rack
from rackspan.core.topology import Broker, RackTree


def cluster(levels, racks, drained=(), offline=(), cordoned=()):
    """Return a tree from a mapping of broker id to rack id (None: no rack)."""
    brokers = (
        Broker(
            broker,
            None if rack is None else parse_rack(rack),
            broker not in drained,
            broker not in offline,
            broker in cordoned,
        )
        for broker, rack in racks.items()
    )
    return RackTree(tuple(levels.split()), tuple(brokers))


def grid(levels, *widths):
    """Return a tree with `widths` children per domain, level by level. The last width is that of brokers per domain."""
    paths = [()]
    for width in widths[:-1]:
        paths = [(*path, f"{len(path)}{number}") for path in paths for number in range(width)]
    brokers = (path for path in paths for _ in range(widths[-1]))
    return RackTree(tuple(levels.split()), tuple(Broker(at, path) for at, path in enumerate(brokers)))
