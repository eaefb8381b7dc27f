"""Replace each string of each custom resource by hostile text, one string at a time.

Admission rejects nearly all of these objects. The operator and the pod of a scan must not depend on that: no hostile
string may become part of a request path, a label or a file name.
"""

import copy
import re
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.manifests import FULL_TOPIC, FULL_TOPOLOGY, REPORT, changed
from tests.support.scan_setups import scan_setup
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.codec import SpecError
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import RackTopology, ScanTrigger
from rackspan.kube.rest import Rest
from rackspan.kube.topology_inputs import read_scan_inputs_with
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.runtime.schedule import Schedule, ScheduleError
from rackspan.reconcile.scans.scan_decision import ScanStart
from rackspan.reconcile.scans.scan_manifests import scan_manifest

HOSTILE = [
    "../../victim/secrets/db",
    "..%2f..%2fvictim",
    "a?watch=true",
    "a#b",
    "a\0b",
    "a\nb",
    "9" * 5_000,
    "\ud800",
    "/etc/passwd",
    "",
]
KEY = ObjectKey("shop", "prod")
NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
PATHS = [
    "/apis/rackspan.dev/v1alpha1/namespaces/shop/racktopologies/prod",
    r"/apis/rackspan.dev/v1alpha1/kafkatopics\?limit=50",
    r"/api/v1/(namespaces|nodes)\?limit=50",
    r"/api/v1/pods\?fieldSelector=status.phase%3DRunning&limit=50",
    f"/api/v1/namespaces/shop/secrets/{NAME}",
]
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


@dataclass(frozen=True)
class Place:
    """The position of a string in an object: the steps to it, and whether it is the key of a map or a value."""

    steps: tuple[Any, ...]
    is_key: bool = False

    def __str__(self):
        return ".".join(map(str, self.steps)) + ("{key}" if self.is_key else "")


def places(value, steps=()):
    """Yield the place of each string in a spec: values, and the keys of maps that a user chooses."""
    if isinstance(value, str):
        yield Place(steps)
    elif isinstance(value, dict):
        for key, child in value.items():
            if not re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", key) or steps[-1:] in (("minDomains",), ("tolerate",)):
                yield Place((*steps, key), is_key=True)
            yield from places(child, (*steps, key))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from places(child, (*steps, number))


def with_text(manifest, place, text):
    result = copy.deepcopy(manifest)
    parent = result["spec"]
    for step in place.steps[:-1]:
        parent = parent[step]
    if place.is_key:
        parent[text] = parent.pop(place.steps[-1])
    else:
        parent[place.steps[-1]] = text
    return result


TOPOLOGY = changed(FULL_TOPOLOGY, {"metadata": {"namespace": "shop", "uid": "uid"}})
TOPIC = changed(FULL_TOPIC, {"metadata": {"namespace": "shop"}})
SECRET = {"data": dict.fromkeys(("ca.pem", "cert.pem", "key.pem", "user", "pass"), "eA==")}


def _ids(place):
    return str(place)


async def _read(topology, topic):
    """Return the requests of a scan of the topology."""

    def answer(_, path):
        if "/racktopologies/" in path:
            return Answer(body=topology)
        if "/secrets/" in path:
            return Answer(body=SECRET)
        return Answer(body={"items": [topic] if "/kafkatopics" in path else []})

    api = RecordingApi(answer)
    try:
        await read_scan_inputs_with(Rest(api), KEY)
    except FailureError as error:
        assert error.failure.message.isprintable(), error.failure.message  # noqa: PT017 - some texts are valid
    return api.asked


def _assert_harmless(asked):
    assert asked
    for method, path in asked:
        assert method == "GET"
        assert any(re.fullmatch(known, path) for known in PATHS), path
        assert ".." not in path


@pytest.mark.parametrize("place", list(places(TOPOLOGY["spec"])), ids=_ids)
async def test_hostile_string_in_a_topology_does_not_get_into_a_request_path(place):
    for text in HOSTILE:
        _assert_harmless(await _read(with_text(TOPOLOGY, place, text), TOPIC))


@pytest.mark.parametrize("place", list(places(TOPIC["spec"])), ids=_ids)
async def test_hostile_string_in_a_topic_does_not_get_into_a_request_path(place):
    for text in HOSTILE:
        _assert_harmless(await _read(TOPOLOGY, with_text(TOPIC, place, text)))


def test_spec_of_a_report_has_no_string_except_the_topology_name():
    assert [str(place) for place in places(REPORT["spec"])] == ["topologyRef.name"]  # not used in requests


@pytest.mark.parametrize("place", list(places(TOPOLOGY["spec"])), ids=_ids)
@pytest.mark.parametrize("engine", ["Job", "SparkOnKubernetes", "SparkApplication"])
def test_hostile_string_in_a_topology_gives_valid_labels_and_name_of_the_scan(engine, place):
    setup = scan_setup("scans", "scan:1")
    start = ScanStart("scan-1", ScanTrigger.REQUEST, "now")
    whole = changed(TOPOLOGY, {"spec": {"compliance": {"engine": engine}}})
    for text in HOSTILE:
        try:
            body = scan_manifest(RackTopology.from_object(with_text(whole, place, text)), start, setup)
        except SpecError:
            continue
        assert (body["metadata"]["namespace"], body["metadata"]["name"]) == ("scans", "scan-1")
        assert all(LABEL.fullmatch(value) and len(value) <= 63 for value in body["metadata"]["labels"].values())


@pytest.mark.parametrize("text", [text for text in HOSTILE if text], ids=lambda text: ascii(text)[:20])
def test_schedule_rejects_a_hostile_time_zone(text):
    with pytest.raises(ScheduleError):
        Schedule.parse("@daily", text)
