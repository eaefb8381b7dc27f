"""References from one object to another, and label selectors."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import field

from rackspan.api.codec import ApiStruct
from rackspan.api.meta import ObjectKey


class TopologyRef(ApiStruct, frozen=True):
    """A reference to a RackTopology. Without a namespace, it is in the namespace of the object with the reference."""

    name: str
    namespace: str | None = None

    def key(self, own_namespace: str) -> ObjectKey:
        """Return the RackTopology's key, for a reference in an object of `own_namespace`."""
        return ObjectKey(self.namespace or own_namespace, self.name)


class SelectorOperator(StrEnum):
    """How a label's value relates to the values of a requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(ApiStruct, frozen=True):
    """A requirement on one label."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels meets the requirement."""
        match self.operator:
            case SelectorOperator.IN:
                return labels.get(self.key) in self.values
            case SelectorOperator.NOT_IN:
                return labels.get(self.key) not in self.values  # like Kubernetes: a label that is absent matches
            case SelectorOperator.EXISTS:
                return self.key in labels
            case SelectorOperator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(ApiStruct, frozen=True):
    """A Kubernetes label selector. All of its parts have to match. An empty selector selects everything."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )
