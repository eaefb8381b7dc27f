"""
The requests that describe groups of KIP-848 (consumer protocol), KIP-932 (share) and KIP-1071 (streams).

kafka-python does not have them. The JSON files name the fields of each, in the order of Kafka's protocol.
"""

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """Names of groups of the consumer protocol."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """Their members, with racks, subscriptions and assignments."""


class ShareGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """Names of share groups."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """The same of those."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """Names of streams groups."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc, unused-ignore]
    """Their topology, and their members with racks and tasks."""
