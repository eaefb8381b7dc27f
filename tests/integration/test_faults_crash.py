"""The operator dies in the middle of its work, and the next one finishes it."""

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.support.objects import condition
from tests.support.waiting import until

BURST = 200


def test_killed_in_the_middle_of_a_burst(topology, topics, operator):
    topology.change_topology(adoption="Never")  # what it made before is not somebody else's to it afterwards
    topology.until_topology()  # the operator has heard: KafkaTopics come by another watch
    names = [f"topic-{number}" for number in range(BURST)]
    ours = {topology.kafka_name(name) for name in names}

    def in_kafka():
        return ours & topics.admin.list_topics(timeout=300).topics.keys()

    killed = threading.Event()

    def burst():
        for number, name in enumerate(names):
            if number == BURST // 2:  # so that the other half is left, however fast the operator is
                killed.wait(300)
            topology.create_topic(name)

    with ThreadPoolExecutor(1) as background:
        bursting = background.submit(burst)
        until(lambda: len(in_kafka()) >= BURST // 10, "the first topics to be there")
        operator.kill()
        killed.set()
        made_before = {name: topics.id(name) for name in in_kafka()}
        bursting.result(300)
    assert len(made_before) < BURST, "it was killed too late to be in the middle"

    operator.start()
    until(lambda: all(_is_ready(topic) for topic in topology.topics()), "all topics to be Ready")
    found = {topic["spec"]["topicName"]: topic["status"]["topicId"] for topic in topology.topics()}
    assert found.keys() == ours, "none is lost"
    assert found == {name: topics.id(name) for name in ours}, "each object is about the topic that is there"
    assert not any("adopted" in topic["status"] for topic in topology.topics()), "and made it"
    assert {name: found[name] for name in made_before} == made_before, "none was made twice"
    assert all(len(topics.replicas(name)) == 3 for name in ours)


def _is_ready(topic):
    ready = condition(topic, "Ready")
    return ready is not None and ready["status"] == "True"
