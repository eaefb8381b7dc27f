"""The requests that describe groups of KIP-848 (consumer protocol), KIP-932 (share) and KIP-1071 (streams).

kafka-python does not have these messages. The JSON files define their fields in the order of Kafka's protocol.
"""

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """A request for groups of the consumer protocol, by name."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """The groups' members, with racks, subscriptions and assignments."""


class ShareGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """A request for share groups, by name."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """The share groups' members, with racks, subscriptions and assignments."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """A request for streams groups, by name."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """The streams groups' topologies, and their members with racks and tasks."""
