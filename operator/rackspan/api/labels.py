"""Names that Rackspan puts on Kubernetes objects, or reads from them."""

from typing import Final

GROUP: Final = "rackspan.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

FINALIZER: Final = f"{GROUP}/finalizer"
"""On every KafkaTopic that the operator manages: it has the last word on what becomes of the topic in Kafka.

And on every RackTopology, the way to these topics."""

PAUSED: Final = f"{GROUP}/paused"
"""Annotation: "true", or what else means yes, leaves the topic alone, whatever its spec says."""

ADOPT_TOPIC_ID: Final = f"{GROUP}/adopt-topic-id"
"""Annotation: the id of a topic that somebody else recreated, and that this object shall own from now on."""

CONFIRM_DELETE: Final = f"{GROUP}/confirm-delete"
"""Annotation: the id of a topic that was adopted, and that deletionPolicy Delete shall delete all the same."""

CREATED_FOR: Final = f"{GROUP}/created-for"
"""Annotation: the object's own uid, a slash and the Kafka cluster's id, put on with the finalizer where the operator is
about to create the topic there. The uid alone, as earlier versions wrote it, is about any cluster.

Until the topic is in the status, one that shows up under its name was made for the object."""

APPROVE_PLAN: Final = f"{GROUP}/approve-plan"
"""Annotation on RackTopologies and KafkaTopics: the hash of the plan, or of the topic's part, that a person approves.

Taken off before the plan begins."""

CONFIRM_DELETIONS: Final = f"{GROUP}/confirm-deletions"
"""Annotation on RackTopologies: how many deletions wait, by which a person says yes to them. Taken off once read."""

WHOLE_PLAN: Final = f"{GROUP}/whole-plan"
"""Annotation on Reassignments: the hashes of the RackTopology's plan when they began, of all of it, of namespaces'
parts and of topics' parts, separated by commas. Only some of these parts may have begun.

An operator that is started again knows by it what it has begun."""

RACK: Final = f"{GROUP}/rack"
"""Annotation on broker pods: the rack of their node. For people to see, never read back."""

PUBLISH_RACKS: Final = f"{GROUP}/publish-racks"
"""Label on namespaces: the RackTopology whose racks are published there for client pods.

Its name if it is in the same namespace, else `namespace.name`."""

RESTART: Final = f"{GROUP}/restart"
"""Annotation on RackTopologies: a broker's id or its pod's name, which is restarted once. Taken off when it is back."""

RACK_FILE: Final = f"{GROUP}/rack-file"
"""Label on ConfigMaps: "true" on those that publish racks."""

RACK_FILE_OF: Final = f"{GROUP}/rack-file-of"
"""Annotation on ConfigMaps that publish racks: the RackTopology, as namespace/name."""

BROKER_PODS_FOR: Final = f"{GROUP}/broker-pods-for"
"""Label on namespaces: the namespace whose RackTopologies may look for their brokers among the pods here."""

RESTARTS_FOR: Final = f"{GROUP}/restarts-for"
"""Label on namespaces: the namespace whose RackTopologies may have their brokers' pods here restarted."""

SCAN_NOW: Final = f"{GROUP}/scan-now"
"""Annotation on RackTopologies: each new value of it starts a compliance scan."""

TOPOLOGY_UID: Final = f"{GROUP}/topology-uid"
"""Label on what runs a scan and on published racks: the RackTopology, exactly."""

SCAN_TOPOLOGY: Final = f"{GROUP}/topology"
"""Label on what runs a scan: the RackTopology's name, for people to select by; cut where it is too long for a label."""

SCAN_TOPOLOGY_NAMESPACE: Final = f"{GROUP}/topology-namespace"
"""Label on what runs a scan: the RackTopology's namespace."""

SCAN_TRIGGER: Final = f"{GROUP}/scan-trigger"
"""Label on what runs a scan: Schedule, Request or TopologyChange."""

SCAN_CAUSE: Final = f"{GROUP}/scan-cause"
"""Annotation on what runs a scan: the scheduled time, the value of scan-now or the topology's fingerprint."""

SCAN_DEADLINE: Final = f"{GROUP}/scan-deadline"
"""Annotation on SparkApplications: how many seconds the scan may take. Jobs have a field for it."""

EXECUTOR_POD: Final = f"{GROUP}/executor-pod"
"""Annotation on the pod of a scan that has executors: what Spark makes their pods from, as JSON."""

READ_ANNOTATIONS: Final = (
    PAUSED,
    ADOPT_TOPIC_ID,
    CONFIRM_DELETE,
    CREATED_FOR,
    APPROVE_PLAN,
    CONFIRM_DELETIONS,
    WHOLE_PLAN,
    RESTART,
    SCAN_NOW,
)
"""Annotations of Rackspan's own kinds that are read. The operator keeps no others."""

PLAN: Final = f"{GROUP}/plan"
"""Label on Reassignments: the hash of the plan, by which the parts of one are found."""
