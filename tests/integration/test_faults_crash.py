"""The operator is killed during its work, and the next one completes it."""

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.support.objects import condition
from tests.support.waiting import until

BURST = 200


def test_operator_killed_during_a_burst_creates_the_remaining_topics_after_restart(topology, topics, operator):
    topology.change_topology(adoption="Never")  # topics created before the kill must not need adoption
    topology.until_topology()  # the operator has seen the change: KafkaTopics arrive through another watch
    names = [f"topic-{number}" for number in range(BURST)]
    ours = {topology.kafka_name(name) for name in names}

    def in_kafka():
        return ours & topics.admin.list_topics(timeout=300).topics.keys()

    killed = threading.Event()

    def burst():
        for number, name in enumerate(names):
            if number == BURST // 2:  # so that half of the topics remain, even for a fast operator
                killed.wait(300)
            topology.create_topic(name)

    with ThreadPoolExecutor(1) as background:
        bursting = background.submit(burst)
        until(lambda: len(in_kafka()) >= BURST // 10, "the first topics to be there")
        operator.kill()
        killed.set()
        made_before = {name: topics.id(name) for name in in_kafka()}
        bursting.result(300)
    assert len(made_before) < BURST, "the operator was killed after it had created all topics"

    operator.start()
    until(lambda: all(_is_ready(topic) for topic in topology.topics()), "all topics to be Ready")
    found = {topic["spec"]["topicName"]: topic["status"]["topicId"] for topic in topology.topics()}
    assert found.keys() == ours, "a topic is missing"
    assert found == {name: topics.id(name) for name in ours}, "an object has another id than its topic"
    assert not any("adopted" in topic["status"] for topic in topology.topics()), (
        "a topic was adopted instead of created"
    )
    assert {name: found[name] for name in made_before} == made_before, "a topic was created twice"
    assert all(len(topics.replicas(name)) == 3 for name in ours)


def _is_ready(topic):
    ready = condition(topic, "Ready")
    return ready is not None and ready["status"] == "True"
