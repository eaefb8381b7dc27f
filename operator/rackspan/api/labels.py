"""Names that Rackspan puts on Kubernetes objects, or reads from them."""

from typing import Final

GROUP: Final = "rackspan.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

FINALIZER: Final = f"{GROUP}/finalizer"
"""On every KafkaTopic that the operator manages, so that it can decide about the topic in Kafka before the deletion.

Also on every RackTopology, through which the operator reaches these topics, and on Reassignments."""

PAUSED: Final = f"{GROUP}/paused"
"""Annotation: with "true", or another value that means yes, the operator does not change the topic, whatever its spec.

On a RackTopology the annotation pauses its Reassignments."""

ADOPT_TOPIC_ID: Final = f"{GROUP}/adopt-topic-id"
"""Annotation: the id of a topic that another client recreated, and that this object owns from now on."""

CONFIRM_DELETE: Final = f"{GROUP}/confirm-delete"
"""Annotation: the id of an adopted topic to which deletionPolicy Delete applies nevertheless."""

CREATED_FOR: Final = f"{GROUP}/created-for"
"""Annotation: the object's own uid, a slash and the Kafka cluster's id. The operator sets it with the finalizer when it
is about to create the topic in that cluster. The uid alone, as earlier versions wrote it, applies to any cluster.

Until the status has the topic, a topic that appears under its name counts as created for the object."""

APPROVE_PLAN: Final = f"{GROUP}/approve-plan"
"""Annotation on RackTopologies and KafkaTopics: the hash of the plan, or of the topic's part, that a user approves.

The operator removes it before the plan begins."""

CONFIRM_DELETIONS: Final = f"{GROUP}/confirm-deletions"
"""Annotation on RackTopologies: the `confirmation`s of held deletions that a user wants, separated by commas.

The operator removes a confirmation once it has used it."""

WHOLE_PLAN: Final = f"{GROUP}/whole-plan"
"""Annotation on Reassignments: hashes of the RackTopology's plan when they began, separated by commas: of the whole
plan, of namespaces' parts and of topics' parts. Perhaps only some of these parts have begun.

After a restart, the operator reads from it what it has begun."""

RACK: Final = f"{GROUP}/rack"
"""Annotation on broker pods: the rack of their node. Only for people to see: Rackspan does not read it."""

PUBLISH_RACKS: Final = f"{GROUP}/publish-racks"
"""Label on namespaces: the RackTopology whose racks are published there for client pods.

The value is the RackTopology's name if it is in the same namespace, else `namespace.name`."""

RESTART: Final = f"{GROUP}/restart"
"""Annotation on RackTopologies: the id or pod name of a broker to restart once. Removed when the broker is back."""

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
"""Label on objects that run a scan and on published racks: the RackTopology's uid."""

SCAN_TOPOLOGY: Final = f"{GROUP}/topology"
"""Label on objects that run a scan and on Reassignments: the RackTopology's name, cut to the length limit of a label.

For the selectors of users."""

SCAN_TOPOLOGY_NAMESPACE: Final = f"{GROUP}/topology-namespace"
"""Label on objects that run a scan: the RackTopology's namespace."""

SCAN_TRIGGER: Final = f"{GROUP}/scan-trigger"
"""Label on objects that run a scan: Schedule, Request or TopologyChange."""

SCAN_CAUSE: Final = f"{GROUP}/scan-cause"
"""Annotation on objects that run a scan: the scheduled time, the value of scan-now or the topology's fingerprint."""

SCAN_DEADLINE: Final = f"{GROUP}/scan-deadline"
"""Annotation on SparkApplications: how many seconds the scan may take. Jobs have a field for it."""

EXECUTOR_POD: Final = f"{GROUP}/executor-pod"
"""Annotation on the pod of a scan that has executors: the template of their pods for Spark, as JSON."""

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
"""The annotations of Rackspan's own kinds that Rackspan reads. The operator keeps no others in memory."""

PLAN: Final = f"{GROUP}/plan"
"""Label on Reassignments: the hash of the plan, by which all parts of a plan are found."""
