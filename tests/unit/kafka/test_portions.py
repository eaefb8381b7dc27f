"""What Kafka did not say of a topic is told apart from a topic that is gone."""

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


def test_a_topic_that_cannot_be_read_is_not_taken_to_be_gone():
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
