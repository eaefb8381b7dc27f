"""Benchmarks watch objects through interrupted watches. The topics benchmark supports objects of any operator."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchmarks.contender import RETENTION, command_line, from_template, generation_when_ready, plurals_of
from benchmarks.topics import OURS
from benchmarks.watching import ReadyWatch, ToldWatch, events_of

TEMPLATE = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata:
  name: $name
  labels: {strimzi.io/cluster: bench}
spec:
  partitions: $partitions
  replicas: $replicas
  config: {retention.ms: $retention_ms}
"""
PATH = "/apis/rackspan.dev/v1alpha1/namespaces/bench/kafkatopics"


def test_watch_ends_at_an_error_event():
    lines = [
        {"type": "ADDED", "object": {"metadata": {"name": "a"}, "status": {"conditions": []}}},
        {"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}},
        {"type": "ADDED", "object": {"metadata": {"name": "b"}}},
    ]
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    chunks = [text[at : at + 7] for at in range(0, len(text), 7)]
    assert list(events_of(chunks)) == lines[:1]
    assert list(events_of([text.splitlines(keepends=True)[0]])) == lines[:1]


def seen(name, generation):
    status = {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": generation}]}
    return {"metadata": {"name": name}, "status": status}


@dataclass
class Answer:
    data: bytes


class Stream:
    def __init__(self, *events):
        self.text = b"".join(json.dumps(event).encode() + b"\n" for event in events)

    def stream(self, _):
        yield self.text


class Objects:
    """A fake API that returns lists and watches in order. After the last one, calls block for ever."""

    def __init__(self, *turns):
        self.turns = list(turns)

    def list_namespaced_custom_object(self, *_, watch=False, resource_version=None, **__):
        if not self.turns:
            threading.Event().wait()
        expected, answer = self.turns.pop(0)
        assert (watch, resource_version) == expected
        if isinstance(answer, Exception):
            raise answer
        return answer


def listed(version, *items):
    return (False, None), Answer(json.dumps({"metadata": {"resourceVersion": version}, "items": items}).encode())


def watched(version, *events):
    return (True, version), Stream(*events)


def test_changes_between_two_watches_are_read_from_a_new_list(monkeypatch):
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}
    objects = Objects(
        listed("1", seen("a", 1), seen("b", 1)),
        watched("1", {"type": "MODIFIED", "object": seen("b", 2)}, error),
        ((False, None), OSError("away")),
        listed("9", seen("b", 2), seen("c", 1)),
        watched("9", {"type": "DELETED", "object": seen("c", 1)}),
    )
    monkeypatch.setattr("benchmarks.watching.client.CustomObjectsApi", lambda _: objects)
    watch = ReadyWatch(None, PATH)
    assert watch.until_ready(["b"], 2, 90) > 0
    assert watch.until_gone(["a", "c"], 90) > 0
    assert watch.ready == {"b": 2}
    with pytest.raises(TimeoutError, match="1 of 2 topics were Ready"):
        watch.until_ready(["b", "c"], 1, 0.01)


def test_wait_fails_if_the_operator_has_ended(monkeypatch):
    def ended():
        raise RuntimeError("it ended with code 1")

    monkeypatch.setattr("benchmarks.watching.client.CustomObjectsApi", lambda _: Objects(listed("1")))
    monkeypatch.setattr("benchmarks.watching._CHECK_SECONDS", 0.01)
    with pytest.raises(RuntimeError, match="it ended with code 1"):
        ReadyWatch(None, PATH, ended).until_ready(["a"], 1, 900)


def test_watch_records_the_time_of_the_first_report_of_a_word():
    objects = Objects(
        listed("1", {"metadata": {"name": "a"}, "words": ["old"]}),
        watched(
            "1",
            {"type": "MODIFIED", "object": {"metadata": {"name": "a"}, "words": ["old", "new"]}},
            {"type": "DELETED", "object": {"metadata": {"name": "a"}, "words": ["last"]}},
        ),
    )
    watch = ToldWatch(objects.list_namespaced_custom_object, lambda found: found["words"])
    assert watch.until_told("old", 90) <= watch.until_told("new", 90) == watch.until_told("new", 90)
    with pytest.raises(TimeoutError, match="no object reported last"):
        watch.until_told("last", 0.01)


def test_template_renders_the_objects_of_another_operator():
    plurals = plurals_of(
        json.dumps(
            {"items": [{"spec": {"group": "kafka.strimzi.io", "names": {"kind": "KafkaTopic", "plural": "kt"}}}]}
        )
    )
    kind = from_template(TEMPLATE, plurals, "bench", bootstrap="kafka:9092")
    assert kind.path == "/apis/kafka.strimzi.io/v1/namespaces/bench/kt"
    made = kind.body("t-1", 6, 3, 86_400_000)
    assert made["metadata"] == {"name": "t-1", "namespace": "bench", "labels": {"strimzi.io/cluster": "bench"}}
    assert made["spec"] == {"partitions": 6, "replicas": 3, "config": {"retention.ms": 86_400_000}}
    with pytest.raises(KeyError):
        from_template(TEMPLATE + "$unknown", plurals, "bench")
    with pytest.raises(KeyError):
        from_template(TEMPLATE, {}, "bench")


def test_body_has_a_config_only_if_retention_is_not_the_default():
    assert "config" not in OURS.body("t", 6, 3, RETENTION)["spec"]
    assert OURS.body("t", 6, 3, 5)["spec"]["config"] == {"retention.ms": 5}


def test_command_is_split_before_its_variables_are_replaced():
    found = command_line("java -Dx='a b' -jar to.jar $kubeconfig $bootstrap", Path("/a b/k"), "bench", "h:1,h:2")
    assert found == ["java", "-Dx=a b", "-jar", "to.jar", "/a b/k", "h:1,h:2"]


@pytest.mark.parametrize(
    ("status", "generation"),
    [
        ({}, None),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, None),
        ({"observedGeneration": 3, "conditions": [{"type": "Ready", "status": "True"}]}, 3),
        ({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}, 2),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, 0),
    ],
)
def test_ready_generation_is_read_from_the_status_or_the_condition(status, generation):
    assert generation_when_ready({"status": status}) == generation
