"""Which brokers and racks a RackTopology drains, and how one changes that. Pure."""

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
        """What a spec drains."""
        return cls(spec.drain_brokers, spec.drain_racks)

    def with_added(self, more: "Drains") -> "Drains":
        """The same and `more`, at the end; a rack that is there in another spelling is there."""
        names = {_name(rack) for rack in self.racks}
        return Drains(
            _distinct((*self.brokers, *more.brokers)),
            (*self.racks, *(rack for rack in _distinct(map(_name, more.racks)) if rack not in names)),
        )

    def without(self, fewer: "Drains") -> "Drains":
        """The same without `fewer`, in whatever spelling."""
        names = {_name(rack) for rack in fewer.racks}
        return Drains(
            tuple(broker for broker in self.brokers if broker not in fewer.brokers),
            tuple(rack for rack in self.racks if _name(rack) not in names),
        )

    @property
    def targets(self) -> tuple[str, ...]:
        """How the status calls them: broker ids, and domains such as /eu/eu-1a."""
        return (*map(str, self.brokers), *map(_name, self.racks))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The same as arguments of `rackspan drain`."""
        return (*map(str, self.brokers), *(f"--rack={rack}" for rack in self.racks))

    def fields(self) -> Mapping[str, Any]:
        """The fields of a spec, both of them."""
        return {"drainBrokers": list(self.brokers), "drainRacks": list(self.racks)}

    def patch(self, before: "Drains") -> list[dict[str, Any]]:
        """JSON patch (RFC 6902) of a RackTopology that drains `before`; empty where nothing changes."""
        was, now = before.fields(), self.fields()
        return [{"op": "add", "path": f"/spec/{key}", "value": now[key]} for key in now if now[key] != was[key]]


def draining(topology: RackTopology, drains: Drains) -> RackTopology:
    """The topology as if its spec drained these."""
    spec = structs.replace(topology.spec, drain_brokers=drains.brokers, drain_racks=drains.racks)
    return structs.replace(topology, spec=spec)


def brokers_of(topology: RackTopology, drains: Drains) -> frozenset[int]:
    """Ids of the brokers in the status that are drained, by themselves or by their racks."""
    paths = [path for rack in drains.racks if (path := rack_or_none(rack))]
    racks = {broker.id: rack_or_none(broker.rack) or () for broker in topology.status.brokers}
    below = {broker for broker, rack in racks.items() if any(is_within(rack, path) for path in paths)}
    return frozenset(below.union(drains.brokers))


def _name(rack: str) -> str:
    path = rack_or_none(rack)
    return domain_name(path) if path else rack


def _distinct(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
