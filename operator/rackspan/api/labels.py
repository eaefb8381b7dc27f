"""Names that Rackspan puts on Kubernetes objects, or reads from them."""

from typing import Final

GROUP: Final = "rackspan.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

FINALIZER: Final = f"{GROUP}/finalizer"
"""Only on KafkaTopics with deletionPolicy Delete: the topic goes before its object does."""

PAUSED: Final = f"{GROUP}/paused"
"""Annotation: "true" leaves the topic alone, whatever its spec says."""

ADOPT_TOPIC_ID: Final = f"{GROUP}/adopt-topic-id"
"""Annotation: the id of a topic that somebody else recreated, and that this object shall own from now on."""

RACK: Final = f"{GROUP}/rack"
"""Annotation on broker pods: the rack of their node. For people to see, never read back."""

PUBLISH_RACKS: Final = f"{GROUP}/publish-racks"
"""Label on namespaces: the RackTopology whose racks are published there for client pods."""
