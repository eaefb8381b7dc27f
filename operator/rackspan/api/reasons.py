"""Every reason that a condition can have. Alerts and scripts match them, so a reason is never renamed."""

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why a condition has its status, in one word. The comment is its meaning in the reference of reasons."""

    # Nothing is wrong.
    IN_SYNC = "InSync"  # The topic in Kafka matches the spec.
    CREATED = "Created"  # The operator has just created the topic.
    ADOPTED = "Adopted"  # The topic existed already, and the operator manages it now.
    COMPLIANT = "Compliant"  # The replicas of every partition are spread as requested.
    CONNECTED = "Connected"  # The Kafka cluster responds, and it is the expected one.
    RACKS_IN_SYNC = "RacksInSync"  # Every broker reports the rack of its node.
    RACKS_PUBLISHED = "RacksPublished"  # Pods can read the rack of their node from a ConfigMap.
    BROKERS_ONLINE = "BrokersOnline"  # Every known broker is online.

    SCAN_COMPLETED = "ScanCompleted"  # The last compliance scan checked the whole cluster.

    # Work is in progress.
    CREATING = "Creating"  # The topic is being created.
    PARTITIONS_ADDED = "PartitionsAdded"  # The operator has just added partitions.
    CONFIG_UPDATED = "ConfigUpdated"  # The operator has just set configs, after a change in the spec or in Kafka.
    UPDATING = "Updating"  # The operator is changing the topic in Kafka to match the spec.
    DELETING = "Deleting"  # The topic is being deleted. The object is deleted after the topic.
    RACKS_SETTLING = "RacksSettling"  # Racks have changed recently. The operator plans nothing until they are stable.
    WAITING = "Waiting"  # The operator has not observed this generation yet.
    SCAN_RUNNING = "ScanRunning"  # A compliance scan is running.
    SCAN_WAITING = "ScanWaiting"  # A scan waits for other scans, or no scan has ended yet; the message says which.

    # A compliance scan could not be started, or could not check the cluster. The next scan is started nevertheless.
    SCAN_FAILED = "ScanFailed"  # The last scan failed. The message says why.
    SCAN_TIMED_OUT = "ScanTimedOut"  # The last scan exceeded activeDeadlineSeconds and was stopped.
    SCAN_INCOMPLETE = "ScanIncomplete"  # The scan could not read or judge some topics, and nothing else is wrong.
    SCAN_MISSED = "ScanMissed"  # A scheduled scan was not started within startingDeadlineSeconds.
    SCAN_NOT_STARTED = "ScanNotStarted"  # The API server refuses the scan's object, or its pod does not start.
    SCAN_NOT_SET_UP = "ScanNotSetUp"  # The operator has no image or no namespace for scans.
    SCAN_NOT_ALLOWED = "ScanNotAllowed"  # The settings of the chart do not allow this namespace the scans of the spec.
    INVALID_SCHEDULE = "InvalidSchedule"  # The schedule has no next time, or the time zone does not exist.

    # Moves of replicas.
    QUEUED = "Queued"  # Another Reassignment of the topology has not ended yet.
    MOVING = "Moving"  # The plan is being carried out.
    MOVED = "Moved"  # All partitions are as planned.
    NOT_ALL_MOVED = "NotAllMoved"  # Some partitions were deleted, or another client changed them. Make a new plan.
    CANCELLING = "Cancelling"  # The moves under way are being cancelled.
    CANCELLED = "Cancelled"  # A user cancelled the plan. Completed moves stay.
    STOPPED = "Stopped"  # The plan no longer fits the cluster. Make a new plan.

    # Approval of plans.
    PLAN_APPROVED = "PlanApproved"  # A plan was just approved and is carried out.
    REASSIGNING = "Reassigning"  # The Reassignment in the message is under way. The rest of the plan follows.
    PLAN_SETTLING = "PlanSettling"  # The plan begins after racks and plan have been unchanged for a while.
    OUTSIDE_WINDOW = "OutsideWindow"  # The approved plan waits for a maintenance window. The message has its time.
    PLAN_ABOVE_LIMIT = "PlanAboveLimit"  # The plan exceeds the limits of automatic approval. A user has to approve it.
    STALE_APPROVAL = "StaleApproval"  # The approved plan is not the current plan. Review the current plan.

    # Changes that are held to prevent harm.
    MIN_INSYNC_HELD = "MinInsyncHeld"  # min.insync.replicas does not change while partitions have no leader.

    # Requested by a user.
    PAUSED = "Paused"  # The annotation rackspan.dev/paused pauses the topic, or the Reassignments.

    # The topic differs from the spec, and only moves of replicas change that.
    PLAN_PENDING = "PlanPending"  # A plan would make the topic match the spec. It is not carried out yet.
    NOT_COMPLIANT = "NotCompliant"  # The replicas of some partitions are not spread as requested.
    REPLICATION_FACTOR_DIFFERS = "ReplicationFactorDiffers"  # Partitions have more or fewer replicas than requested.
    HOLDS_UP_DRAIN = "HoldsUpDrain"  # The explicit assignment names brokers that the topology drains.
    ASSIGNMENT_DIFFERS = "AssignmentDiffers"  # Replicas are not on the brokers of the explicit assignment.

    # Drains of brokers and racks.
    DRAINED = "Drained"  # Kafka reports no replica on the drained brokers.
    DRAINING = "Draining"  # Replicas are left on the brokers; status.drains says which, and why.
    UNKNOWN_RACK = "UnknownRack"  # No broker is in a domain with this name.
    EXPLICIT_ASSIGNMENT = "ExplicitAssignment"  # The topic's explicit assignment keeps replicas on the brokers.
    NOT_MANAGED = "NotManaged"  # No KafkaTopic declares the topic, so no plan moves it.

    # The spec cannot be fulfilled. The operator retries after the spec, or an object it refers to, changes.
    INVALID_SPEC = "InvalidSpec"  # A field cannot be read.
    INVALID_ANNOTATION = "InvalidAnnotation"  # An annotation has an invalid value, or has no effect on this object.
    UNKNOWN_PLACER = "UnknownPlacer"  # No placer with this name is installed.
    PLACER_FAILED = "PlacerFailed"  # The placer failed. The message has its error.
    TOO_LARGE = "TooLarge"  # Too many replicas to compute, or too many brokers for one object.
    UNKNOWN_LEVEL = "UnknownLevel"  # The topology has no level with this name.
    UNKNOWN_BROKER = "UnknownBroker"  # The cluster has no broker with this id.
    INFEASIBLE = "Infeasible"  # The present brokers cannot hold the replicas as requested.
    DURABILITY_UNSATISFIABLE = "DurabilityUnsatisfiable"  # Replicas and placement cannot keep the durability.
    PARTITIONS_CANNOT_SHRINK = "PartitionsCannotShrink"  # The topic in Kafka has more partitions than the spec.
    INVALID_CONFIG = "InvalidConfig"  # Kafka refuses a topic config.
    INVALID_TOPIC_NAME = "InvalidTopicName"  # Kafka refuses the topic's name.
    KAFKA_REFUSED = "KafkaRefused"  # Kafka refuses the request. The message has its error.

    # The topic or the cluster is not the expected one. Nothing is changed until a user decides.
    TOPIC_CONFLICT = "TopicConflict"  # An older KafkaTopic owns the topic. The message names it.
    TOPIC_VANISHED = "TopicVanished"  # Another client deleted the topic, and onTopicLoss is Stall.
    TOPIC_ID_MISMATCH = "TopicIdMismatch"  # Another client recreated the topic: the name is the same, the id differs.
    CLUSTER_ID_MISMATCH = "ClusterIdMismatch"  # A different Kafka cluster responds than before.
    DELETION_HELD = "DeletionHeld"  # Many topics, or a namespace, are deleted at once. A user has to confirm that.
    DELETION_BLOCKED = "DeletionBlocked"  # The topic cannot be deleted safely now. The object waits.

    TOPOLOGY_IN_USE = "TopologyInUse"  # KafkaTopics with deletionPolicy Delete need the RackTopology, so it goes last.

    # The RackTopology does not accept the topic.
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"  # The RackTopology does not exist.
    TOPOLOGY_NOT_READY = "TopologyNotReady"  # The RackTopology itself is not ready. Its conditions say why.
    TOO_MANY_TOPOLOGIES = "TooManyTopologies"  # The namespace has more RackTopologies than the operator reconciles.
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"  # The RackTopology's allowedNamespaces excludes this namespace.

    TOPIC_NAME_NOT_ALLOWED = "TopicNameNotAllowed"  # The RackTopology does not allow this topic name in this namespace.
    QUOTA_EXCEEDED = "QuotaExceeded"  # The namespace would exceed its quota in the RackTopology.
    INTERNAL_TOPIC = "InternalTopic"  # An internal topic of Kafka or of a tool: not in internalTopics, or not declared.
    ADOPTION_NOT_ALLOWED = "AdoptionNotAllowed"  # The topic exists already, and this namespace may not adopt it.

    # Restarts of brokers' pods.
    RESTARTING = "Restarting"  # The pod of one broker was evicted. The broker is not back yet.
    RESTARTED = "Restarted"  # The broker has joined all its ISRs again.
    RESTART_WAITING = "RestartWaiting"  # A broker needs a restart, but a restart is not safe or not useful now.
    RESTART_NOT_ALLOWED = "RestartNotAllowed"  # The operator may not evict the pod, or no controller would recreate it.
    RESTART_DID_NOT_MEND = "RestartDidNotMend"  # A broker reports the old rack after a restart. No other follows.

    # The racks are not known well enough to place replicas.
    BROKER_PODS_NOT_SHARED = "BrokerPodsNotShared"  # The namespace of the broker pods has not allowed reading them.
    MISSING_RACKS = "MissingRacks"  # Some brokers have a rack and others have none.
    DUPLICATE_BROKER_ID = "DuplicateBrokerId"  # Two pods claim the same broker id.
    NO_BROKERS = "NoBrokers"  # No broker was found.
    INVALID_RACK = "InvalidRack"  # A node label or a broker's rack is not a valid rack path.
    EMPTY_LEVEL = "EmptyLevel"  # No broker has a domain at a level: the label is wrong, or the level is superfluous.
    CONFIG_MAP_TAKEN = "ConfigMapTaken"  # Racks are not published: the ConfigMap belongs to another owner.
    CORDONS_LEFT = "CordonsLeft"  # The RackTopology was deleted, and Kafka still has cordons of its drains.
    BROKER_OFFLINE = "BrokerOffline"  # The brokers in the message are offline. Their replicas do not move.
    RACK_DRIFT = "RackDrift"  # Brokers report another rack than their nodes have. The message has the next step.

    # Kafka or the API server cannot be reached. The operator retries with backoff.
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105  # A Secret, or a key in a Secret, does not exist.
    AUTHENTICATION_FAILED = "AuthenticationFailed"  # Kafka refuses the login, or no token could be fetched.
    TLS_FAILED = "TlsFailed"  # The TLS handshake fails: certificates, host names or versions do not match.
    KAFKA_UNREACHABLE = "KafkaUnreachable"  # No broker responds.
    KAFKA_CLIENT_FAILED = "KafkaClientFailed"  # The process of the Kafka client ended, hung or used too much memory.
    KAFKA_CLIENT_WAITING = "KafkaClientWaiting"  # The Kafka clients of other namespaces use all processes now.
    LEASE_NOT_HELD = "LeaseNotHeld"  # The operator does not hold its Lease, so it changes nothing.
    API_SERVER_UNREACHABLE = "ApiServerUnreachable"  # The Kubernetes API server does not respond.
    API_SERVER_REFUSED = "ApiServerRefused"  # The Kubernetes API server refuses a request. The message has its error.
    NOT_AUTHORIZED = "NotAuthorized"  # Kafka's ACLs deny the request.
    PLACER_TIMED_OUT = "PlacerTimedOut"  # An installed placer takes too long. The operator retries with backoff.
    UNEXPECTED_ERROR = "UnexpectedError"  # A defect of the operator. Its log has the traceback.


PLAN_GOES_ON: Final = frozenset({Reason.REASSIGNING, Reason.PLAN_SETTLING, Reason.OUTSIDE_WINDOW})
"""Reasons of the condition Reassigned of a plan that continues without an action of a person."""
