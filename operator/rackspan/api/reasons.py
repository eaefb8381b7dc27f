"""Every reason that a condition can have. Alerts and scripts match them, so a reason is never renamed."""

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why a condition has its status, in one word. The comment is its meaning in the reference of reasons."""

    # All is well.
    IN_SYNC = "InSync"  # Kafka has what the spec asks for.
    CREATED = "Created"  # The topic was created just now.
    ADOPTED = "Adopted"  # The topic was there already, and is managed from now on.
    COMPLIANT = "Compliant"  # Every partition's replicas are spread as asked.
    CONNECTED = "Connected"  # The Kafka cluster answers, and it is the one that is meant.
    RACKS_IN_SYNC = "RacksInSync"  # Every broker reports the rack that its node has.
    RACKS_PUBLISHED = "RacksPublished"  # Pods find the rack of their node in a ConfigMap.
    BROKERS_ONLINE = "BrokersOnline"  # Every broker that is known is online.

    SCAN_COMPLETED = "ScanCompleted"  # The last compliance scan judged the whole cluster.

    # Work goes on.
    CREATING = "Creating"  # The topic is being created.
    PARTITIONS_ADDED = "PartitionsAdded"  # New partitions were added just now.
    CONFIG_UPDATED = "ConfigUpdated"  # Configs were set just now, after a change of the spec or of Kafka.
    UPDATING = "Updating"  # Kafka is being brought to what the spec asks for.
    DELETING = "Deleting"  # The topic is being deleted, and the object after it.
    RACKS_SETTLING = "RacksSettling"  # Racks changed a moment ago: nothing is planned before they last.
    WAITING = "Waiting"  # The operator has not observed this generation yet.
    SCAN_RUNNING = "ScanRunning"  # A compliance scan runs now.
    SCAN_WAITING = "ScanWaiting"  # A scan is due and waits for others, or none has ended yet; the message says which.

    # A compliance scan could not be started, or could not judge the cluster. The next one is started all the same.
    SCAN_FAILED = "ScanFailed"  # The last scan failed, and the message says why.
    SCAN_TIMED_OUT = "ScanTimedOut"  # The last scan took longer than activeDeadlineSeconds, and was ended.
    SCAN_INCOMPLETE = "ScanIncomplete"  # Some topics could not be read; the others are spread as asked.
    SCAN_MISSED = "ScanMissed"  # A scheduled scan was not started within startingDeadlineSeconds.
    SCAN_NOT_STARTED = "ScanNotStarted"  # The API server does not take a scan, or its pod does not start.
    SCAN_NOT_SET_UP = "ScanNotSetUp"  # The operator does not know which image scans, or where scans run.
    SCAN_NOT_ALLOWED = "ScanNotAllowed"  # The chart does not let this namespace have its scans as the spec asks.
    INVALID_SCHEDULE = "InvalidSchedule"  # The schedule never comes, or there is no such time zone.

    # Replicas are moved.
    QUEUED = "Queued"  # Another Reassignment of the topology has not ended yet.
    MOVING = "Moving"  # The plan is being carried out.
    MOVED = "Moved"  # Everything is as planned.
    NOT_ALL_MOVED = "NotAllMoved"  # Some partitions are gone, or somebody else has changed them. Make a new plan.
    CANCELLING = "Cancelling"  # What is under way is being taken back.
    CANCELLED = "Cancelled"  # Somebody cancelled it. What had moved by then stays where it is.
    STOPPED = "Stopped"  # The plan does not fit the cluster any more. Make a new one.

    # A plan is approved, or waits.
    PLAN_APPROVED = "PlanApproved"  # A plan was approved just now, and is carried out.
    REASSIGNING = "Reassigning"  # A Reassignment, which the message names, is under way; the rest comes after it.
    PLAN_SETTLING = "PlanSettling"  # The plan begins once racks and plan have stayed the same for a while.
    OUTSIDE_WINDOW = "OutsideWindow"  # The plan is approved, and waits for a maintenance window, whose time is given.
    PLAN_ABOVE_LIMIT = "PlanAboveLimit"  # The plan is too large to begin by itself: a person has to approve it.
    STALE_APPROVAL = "StaleApproval"  # The approved plan is not the current plan: review the current one.

    # Held to prevent harm.
    MIN_INSYNC_HELD = "MinInsyncHeld"  # min.insync.replicas stays while partitions have no leader, until one is back.

    # A person asked for it.
    PAUSED = "Paused"  # The annotation rackspan.dev/paused leaves the topic alone, or pauses Reassignments.

    # The topic differs from the spec, and only moves of replicas can change that.
    PLAN_PENDING = "PlanPending"  # There is a plan that would bring it to the spec, and nobody has carried it out.
    NOT_COMPLIANT = "NotCompliant"  # Some partitions' replicas are not spread as asked.
    REPLICATION_FACTOR_DIFFERS = "ReplicationFactorDiffers"  # Partitions have more or fewer replicas than asked.
    HOLDS_UP_DRAIN = "HoldsUpDrain"  # The explicit assignment names brokers that the topology is to drain.
    ASSIGNMENT_DIFFERS = "AssignmentDiffers"  # Replicas are not where the explicit assignment puts them.

    # Brokers or racks are drained.
    DRAINED = "Drained"  # Kafka shows no replica there.
    DRAINING = "Draining"  # Replicas are left there; status.drains says whose, and what they wait for.
    UNKNOWN_RACK = "UnknownRack"  # No broker stands in a domain of that name.
    EXPLICIT_ASSIGNMENT = "ExplicitAssignment"  # The topic's own assignment keeps replicas there.
    NOT_MANAGED = "NotManaged"  # No KafkaTopic declares the topic, so nothing plans for it.

    # The spec cannot be satisfied. No retry until it, or what it refers to, changes.
    INVALID_SPEC = "InvalidSpec"  # A field cannot be read.
    INVALID_ANNOTATION = "InvalidAnnotation"  # An annotation says nothing that is understood, or has no effect there.
    UNKNOWN_PLACER = "UnknownPlacer"  # No placer of that name is installed.
    PLACER_FAILED = "PlacerFailed"  # The placer has a defect, which the message quotes.
    TOO_LARGE = "TooLarge"  # Too many replicas to compute with, or brokers for one object.
    UNKNOWN_LEVEL = "UnknownLevel"  # The topology has no level of that name.
    UNKNOWN_BROKER = "UnknownBroker"  # The cluster has no broker of that id.
    INFEASIBLE = "Infeasible"  # The brokers that there are cannot hold it as asked.
    DURABILITY_UNSATISFIABLE = "DurabilityUnsatisfiable"  # Replicas, placement and min ISR cannot keep the promise.
    PARTITIONS_CANNOT_SHRINK = "PartitionsCannotShrink"  # Kafka has more partitions than the spec says.
    INVALID_CONFIG = "InvalidConfig"  # Kafka refuses a topic config.
    INVALID_TOPIC_NAME = "InvalidTopicName"  # Kafka refuses the topic's name.
    KAFKA_REFUSED = "KafkaRefused"  # Kafka refuses for a reason of its own, which the message quotes.

    # The topic or the cluster is not the expected one. Nothing is changed until a person decides.
    TOPIC_CONFLICT = "TopicConflict"  # An older KafkaTopic, which the message names, owns the topic.
    TOPIC_VANISHED = "TopicVanished"  # Somebody else deleted the topic, and onTopicLoss is Stall.
    TOPIC_ID_MISMATCH = "TopicIdMismatch"  # Somebody else recreated the topic: same name, other id.
    CLUSTER_ID_MISMATCH = "ClusterIdMismatch"  # Another Kafka cluster answers than the one that is meant.
    DELETION_HELD = "DeletionHeld"  # Too many deletions at once, or a namespace's end: a person has to confirm them.
    DELETION_BLOCKED = "DeletionBlocked"  # The topic cannot be deleted safely now, so the object waits.

    TOPOLOGY_IN_USE = "TopologyInUse"  # KafkaTopics with deletionPolicy Delete need the RackTopology, so it goes last.

    # The RackTopology does not serve the topic.
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"  # There is no such RackTopology.
    TOPOLOGY_NOT_READY = "TopologyNotReady"  # The RackTopology has a problem of its own, and its conditions say which.
    TOO_MANY_TOPOLOGIES = "TooManyTopologies"  # The namespace has more RackTopologies than the operator serves.
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"  # The RackTopology's allowedNamespaces leave this namespace out.

    TOPIC_NAME_NOT_ALLOWED = "TopicNameNotAllowed"  # The RackTopology gives this namespace other names for its topics.
    QUOTA_EXCEEDED = "QuotaExceeded"  # The namespace would have more in Kafka than the RackTopology gives to it.
    INTERNAL_TOPIC = "InternalTopic"  # It is Kafka's or a tool's own: not listed in internalTopics, or not declared.
    ADOPTION_NOT_ALLOWED = "AdoptionNotAllowed"  # The topic was there already, and this namespace may not take it over.

    # Restarts of brokers' pods.
    RESTARTING = "Restarting"  # One broker's pod was evicted, and the broker is not back yet.
    RESTARTED = "Restarted"  # The broker is back in all ISRs.
    RESTART_WAITING = "RestartWaiting"  # A broker needs a restart, which is not safe or of no use now.
    RESTART_NOT_ALLOWED = "RestartNotAllowed"  # The operator may not evict the pod, or nothing would bring it back.
    RESTART_DID_NOT_MEND = "RestartDidNotMend"  # A broker reports the old rack after its restart, and is left alone.

    # The racks are not known well enough to place anything.
    BROKER_PODS_NOT_SHARED = "BrokerPodsNotShared"  # The namespace of the brokers' pods does not consent to be read.
    MISSING_RACKS = "MissingRacks"  # Some brokers have a rack and some have not.
    DUPLICATE_BROKER_ID = "DuplicateBrokerId"  # Two pods claim one broker id.
    NO_BROKERS = "NoBrokers"  # No broker was found.
    INVALID_RACK = "InvalidRack"  # A node's label or a broker's rack cannot be a rack path.
    EMPTY_LEVEL = "EmptyLevel"  # No broker has a domain at one of the levels: a wrong label, or a level too many.
    CONFIG_MAP_TAKEN = "ConfigMapTaken"  # Racks are not published: a ConfigMap of that name belongs to another owner.
    CORDONS_LEFT = "CordonsLeft"  # The RackTopology went while Kafka was away, or to another cluster: cordons stay.
    BROKER_OFFLINE = "BrokerOffline"  # Brokers are away, which the message names; what lies on them stays there.
    RACK_DRIFT = "RackDrift"  # Brokers report another rack than their nodes have; the message says what ends that.

    # Kafka cannot be asked. Retried with back-off.
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105  # A Secret, or a key in it, is not there.
    AUTHENTICATION_FAILED = "AuthenticationFailed"  # Kafka refuses the log-in, or there is no token for one.
    TLS_FAILED = "TlsFailed"  # No encrypted connection comes about: certificates, names or versions do not fit.
    KAFKA_UNREACHABLE = "KafkaUnreachable"  # No broker answers.
    KAFKA_CLIENT_FAILED = "KafkaClientFailed"  # The process of the Kafka client ended, hung or grew too large.
    KAFKA_CLIENT_WAITING = "KafkaClientWaiting"  # The Kafka clients of other namespaces take all places now.
    LEASE_NOT_HELD = "LeaseNotHeld"  # The operator is not sure that no other one acts, and changes nothing.
    API_SERVER_UNREACHABLE = "ApiServerUnreachable"  # The Kubernetes API does not take a request now.
    API_SERVER_REFUSED = "ApiServerRefused"  # The Kubernetes API takes a request for wrong; the message quotes why.
    NOT_AUTHORIZED = "NotAuthorized"  # Kafka's ACLs do not let the operator do it.
    PLACER_TIMED_OUT = "PlacerTimedOut"  # A placer that is not built in takes too long. Retried with back-off.
    UNEXPECTED_ERROR = "UnexpectedError"  # A defect of the operator. Its log has more.


PLAN_GOES_ON: Final = frozenset({Reason.REASSIGNING, Reason.PLAN_SETTLING, Reason.OUTSIDE_WINDOW})
"""Reasons of the condition Reassigned of a plan that continues without an action of a person."""
