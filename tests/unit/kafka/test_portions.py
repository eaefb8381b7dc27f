"""Topics that cannot be read are distinguished from deleted topics."""

from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException

from rackspan.kafka.cluster_snapshot import _sorted_out


def answer(value=None, *, error=None):
    made = Future()
    if error is None:
        made.set_result(value)
    else:
        made.set_exception(KafkaException(KafkaError(error)))
    return made


def test_unreadable_topic_does_not_count_as_deleted():
    answers = {
        "orders": answer("seen"),
        "gone": answer(error=KafkaError.UNKNOWN_TOPIC_OR_PART),
        "slow": answer(error=KafkaError._TIMED_OUT),
        "secret": answer(error=KafkaError.TOPIC_AUTHORIZATION_FAILED),
    }
    found, unread = _sorted_out(answers)
    assert found == {"orders": "seen"}
    assert unread.keys() == {"slow", "secret"}
    assert all(unread.values())
