"""The brokers and racks that a RackTopology drains, and changes of these. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from msgspec import structs

from rackspan.api.racktopology import RackTopology, RackTopologySpec
from rackspan.core.rack_path import domain_name, is_within, rack_or_none

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Drains:
    """`spec.drainBrokers` and `spec.drainRacks`, in the order and the spelling of the object."""

    brokers: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: RackTopologySpec) -> Self:
        """Return the drains of a spec."""
        return cls(spec.drain_brokers, spec.drain_racks)

    def with_added(self, more: "Drains") -> "Drains":
        """Return these drains with `more` at the end. A rack is not added if it is present in another spelling."""
        names = {_name(rack) for rack in self.racks}
        return Drains(
            _distinct((*self.brokers, *more.brokers)),
            (*self.racks, *(rack for rack in _distinct(map(_name, more.racks)) if rack not in names)),
        )

    def without(self, fewer: "Drains") -> "Drains":
        """Return these drains without `fewer`. A rack is removed in any spelling."""
        names = {_name(rack) for rack in fewer.racks}
        return Drains(
            tuple(broker for broker in self.brokers if broker not in fewer.brokers),
            tuple(rack for rack in self.racks if _name(rack) not in names),
        )

    @property
    def targets(self) -> tuple[str, ...]:
        """The drains as named in the status: broker ids, and domains such as /eu/eu-1a."""
        return (*map(str, self.brokers), *map(_name, self.racks))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The drains as arguments of `rackspan drain`."""
        return (*map(str, self.brokers), *(f"--rack={rack}" for rack in self.racks))

    def fields(self) -> Mapping[str, Any]:
        """Return both fields of the spec."""
        return {"drainBrokers": list(self.brokers), "drainRacks": list(self.racks)}

    def patch(self, before: "Drains") -> list[dict[str, Any]]:
        """Return the JSON patch (RFC 6902) of a RackTopology with the drains `before`; empty if nothing changes."""
        was, now = before.fields(), self.fields()
        return [{"op": "add", "path": f"/spec/{key}", "value": now[key]} for key in now if now[key] != was[key]]


def draining(topology: RackTopology, drains: Drains) -> RackTopology:
    """Return the topology with these drains in its spec."""
    spec = structs.replace(topology.spec, drain_brokers=drains.brokers, drain_racks=drains.racks)
    return structs.replace(topology, spec=spec)


def brokers_of(topology: RackTopology, drains: Drains) -> frozenset[int]:
    """Return the ids of the drained brokers: those in `drains`, and those in the status whose rack is drained."""
    paths = [path for rack in drains.racks if (path := rack_or_none(rack))]
    racks = {broker.id: rack_or_none(broker.rack) or () for broker in topology.status.brokers}
    below = {broker for broker, rack in racks.items() if any(is_within(rack, path) for path in paths)}
    return frozenset(below.union(drains.brokers))


def _name(rack: str) -> str:
    path = rack_or_none(rack)
    return domain_name(path) if path else rack


def _distinct(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
