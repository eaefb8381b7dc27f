"""How the operator handles the responses of the API server."""

import socket
from unittest.mock import Mock

import pytest
from kubernetes.aio import client
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.kube import rest as rest_module
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.kube_objects import ANY_PAGE
from rackspan.kube.paths import TOPICS
from rackspan.kube.rest import ConflictError, NotFoundError, Rest
from rackspan.kube.topology_edits import follow_scan
from rackspan.kube.topology_inputs import read_scan_inputs_with
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.ports import ObjectRef

ORDERS = ObjectRef("KafkaTopic", ObjectKey("shop", "orders"), "uid-1")
UNSERVED = Answer(404, b"404 page not found")
REFUSALS = [
    UNSERVED,
    Answer(404, {"message": 'kafkatopics.rackspan.dev "orders" not found'}),
    Answer(409, {"message": "the object has been modified; please apply your changes to the latest version"}),
    Answer(422, {"message": "the server rejected our request due to an error in our request"}),
]
"""Responses to the write of a status. The last one means that a test of the JSON patch failed, such as the uid."""


def _says(message):
    return {"kind": "Status", "message": message}


async def _failure(*answers, call=lambda rest: rest.get("get", TOPICS.collection())):
    api = _answering(*answers)
    with pytest.raises(FailureError) as caught:
        await call(Rest(api))
    return caught.value.failure


def _answering(*answers):
    left = list(answers)
    return RecordingApi(lambda _, __: left.pop(0) if len(left) > 1 else left[0])


@pytest.fixture
def pauses(monkeypatch):
    """The pauses in seconds. They end immediately."""
    waited = []

    async def pause(seconds):
        waited.append(seconds)

    monkeypatch.setattr(rest_module, "_pause", pause)
    return waited


@pytest.mark.parametrize(
    ("status", "message", "reason", "remedy"),
    [
        (400, "the body is no JSON", Reason.API_SERVER_REFUSED, Remedy.ACCESS),
        (405, "no such verb", Reason.API_SERVER_REFUSED, Remedy.ACCESS),
        (413, "too large", Reason.API_SERVER_REFUSED, Remedy.ACCESS),
        (422, "Job is invalid: spec.a: no", Reason.API_SERVER_REFUSED, Remedy.SPEC),
        (401, "Unauthorized", Reason.NOT_AUTHORIZED, Remedy.ACCESS),
        (403, 'jobs is forbidden: User "x" cannot create', Reason.NOT_AUTHORIZED, Remedy.ACCESS),
        (403, 'admission webhook "w" denied the request: no', Reason.API_SERVER_REFUSED, Remedy.ACCESS),
        (500, "etcd is away", Reason.API_SERVER_UNREACHABLE, Remedy.RETRY),
        (503, "not yet", Reason.API_SERVER_UNREACHABLE, Remedy.RETRY),
    ],
)
async def test_error_status_maps_to_a_reason_and_a_remedy(status, message, reason, remedy):
    failure = await _failure(Answer(status, _says(message)))
    assert (failure.reason, failure.remedy) == (reason, remedy)
    assert failure.message == f"GET /apis/rackspan.dev/v1alpha1/kafkatopics: {status} {message}"


async def test_timeout_message_names_the_api_server_without_its_credentials():
    def hang(*_):
        raise TimeoutError

    api = RecordingApi(hang)
    api.configuration.host = "https://me:secret@kube.example.com:6443"
    with pytest.raises(FailureError) as caught:
        await Rest(api).get("get", TOPICS.collection())
    assert caught.value.failure.message == (
        "the API server at kube.example.com:6443 has not answered in time: GET /apis/rackspan.dev/v1alpha1/kafkatopics"
    )


@pytest.mark.parametrize(("status", "error"), [(404, NotFoundError), (409, ConflictError)])
async def test_404_and_409_raise_their_own_errors(status, error):
    with pytest.raises(error):
        await Rest(_answering(Answer(status, _says("no")))).get("get", TOPICS.collection())


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b'{"items": [', b"[]", b""])
async def test_response_that_is_not_a_json_object_is_retried_as_an_unreachable_api_server(body):
    failure = await _failure(Answer(200, body))
    assert (failure.reason, failure.remedy) == (Reason.API_SERVER_UNREACHABLE, Remedy.RETRY)


@pytest.mark.parametrize("message", [None, 7])
async def test_403_without_a_message_text_is_not_authorized(message):
    assert (await _failure(Answer(403, _says(message)))).reason == Reason.NOT_AUTHORIZED


async def test_kinds_are_unserved_if_the_api_server_lists_no_resources():
    assert set(await KubeCluster(Rest(_answering(Answer(200, {}))), Mock()).unserved()) >= {"KafkaTopic"}


def _kube(refusal, found):
    """Return a cluster that responds to each change with `refusal` and to each list with `found`."""
    api = RecordingApi(lambda method, _: refusal if method == "PATCH" else found)
    return KubeCluster(Rest(api), Mock())


def _there(*uids):
    metadata = {"namespace": ORDERS.key.namespace, "name": ORDERS.key.name, "resourceVersion": "7"}
    return Answer(body={"items": [{"metadata": {**metadata, "uid": uid}} for uid in uids]})


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_rejected_status_write_is_retried_while_the_object_exists(refusal):
    with pytest.raises(FailureError) as caught:
        await _kube(refusal, _there(ORDERS.uid)).replace_status(ORDERS, {"topicId": "a"})
    failure = caught.value.failure
    assert (failure.reason, failure.remedy) == (Reason.API_SERVER_UNREACHABLE, Remedy.RETRY)
    assert "kafkatopics/orders/status" in failure.message


@pytest.mark.parametrize("found", [_there(), _there("uid-2")])
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_rejected_status_write_is_not_retried_after_the_object_was_deleted(refusal, found):
    assert await _kube(refusal, found).replace_status(ORDERS, {"topicId": "a"}) is None


async def test_object_of_an_unserved_kind_does_not_count_as_deleted():
    kube = _kube(UNSERVED, UNSERVED)
    for call in (kube.replace_status(ORDERS, {"topicId": "a"}), kube.find(ORDERS.kind, ORDERS.key)):
        with pytest.raises(FailureError) as caught:
            await call
        assert (caught.value.failure.reason, caught.value.failure.remedy) == (
            Reason.API_SERVER_UNREACHABLE,
            Remedy.RETRY,
        )


async def test_429_is_retried_after_the_retry_after_header_or_one_second(pauses):
    busy = Answer(429, _says("too many requests"), {"Retry-After": "3"})
    api = _answering(busy, Answer(429, b"busy"), Answer(body={"items": []}))
    assert await Rest(api).get("list", TOPICS.collection()) == {"items": []}
    assert len(api.asked) == 3
    assert pauses == [3.0, 1.0]


@pytest.mark.parametrize("after", ["3600", "-1", "nan", "Wed, 21 Oct 2026 07:28:00 GMT", "9" * 5_000])
async def test_excessive_or_invalid_retry_after_is_bounded(pauses, after):
    failure = await _failure(Answer(429, _says("too many requests"), {"Retry-After": after}))
    assert (failure.reason, failure.remedy) == (Reason.API_SERVER_UNREACHABLE, Remedy.RETRY)
    assert all(0 < seconds <= 10 for seconds in pauses)
    assert sum(pauses) <= 30


async def test_list_all_starts_again_if_the_list_expires():
    def item(name):
        return {"metadata": {"name": name}}

    api = _answering(
        Answer(body={"items": [item("a")], "metadata": {"continue": "x"}}),
        Answer(410, _says("the provided continue parameter is too old")),
        Answer(body={"items": [item("b")], "metadata": {"continue": "y"}}),
        Answer(body={"items": [item("c")]}),
    )
    assert await Rest(api).list_all("list", TOPICS.collection(), ANY_PAGE) == [item("b"), item("c")]
    assert ["continue" in path for _, path in api.asked] == [False, True, False, True]


async def test_list_all_fails_if_the_list_always_expires():
    failure = await _failure(
        Answer(410, _says("too old")), call=lambda rest: rest.list_all("list", TOPICS.collection(), ANY_PAGE)
    )
    assert (failure.reason, failure.remedy) == (Reason.API_SERVER_UNREACHABLE, Remedy.RETRY)


async def test_each_yields_objects_page_by_page_and_again_if_the_list_expires():
    def item(name):
        return {"metadata": {"name": name}}

    api = _answering(
        Answer(body={"items": [item("a")], "metadata": {"continue": "x"}}),
        Answer(410, _says("the provided continue parameter is too old")),
        Answer(body={"items": [item("a")], "metadata": {"continue": "y"}}),
        Answer(body={"items": [item("b")]}),
    )
    objects = Rest(api).each("list", TOPICS.collection(), ANY_PAGE)
    found = [(each["metadata"]["name"], len(api.asked)) async for each in objects]
    assert found == [("a", 1), ("a", 3), ("b", 4)]


async def test_each_fails_if_the_list_always_expires():
    with pytest.raises(FailureError):
        _ = [
            each
            async for each in Rest(_answering(Answer(410, _says("too old")))).each("l", TOPICS.collection(), ANY_PAGE)
        ]


async def test_follow_scan_fails_if_the_topology_has_an_invalid_spec():
    unreadable = Answer(body={"metadata": {"namespace": "shop", "name": "prod"}, "spec": {"kafka": "here"}})
    failure = await _failure(unreadable, call=lambda rest: follow_scan(rest, ObjectKey("shop", "prod"), print))
    assert (failure.reason, failure.remedy) == (Reason.INVALID_SPEC, Remedy.ACCESS)


async def test_a_level_called_broker_fails_what_reads_the_topology():
    spec = {"kafka": {"bootstrapServers": "kafka:9092"}, "levels": [{"name": "zone"}, {"name": "broker"}]}
    stored = Answer(body={"metadata": {"namespace": "shop", "name": "prod"}, "spec": spec})
    failure = await _failure(stored, call=lambda rest: read_scan_inputs_with(rest, ObjectKey("shop", "prod")))
    assert (failure.reason, failure.remedy) == (Reason.INVALID_SPEC, Remedy.SPEC)
    assert 'RackTopology shop/prod: spec.levels: the level "broker"' in failure.message


@pytest.mark.parametrize(
    ("server", "proxy", "sentence"),
    [
        ("https://127.0.0.1:1", None, "the API server at 127.0.0.1:1 cannot be reached: Connection refused"),
        ("https://localhost:1", None, "the API server at localhost:1 cannot be reached: Connection refused"),
        (
            "https://none.invalid:6443",
            None,
            "the API server at none.invalid:6443 cannot be reached: Name or service not known",
        ),
        (
            "https://me:secret@none.invalid",
            "http://127.0.0.1:1",
            "the API server at none.invalid cannot be reached over the proxy 127.0.0.1:1: Connection refused",
        ),
    ],
)
async def test_api_server_that_cannot_be_reached_is_named_with_the_cause(monkeypatch, server, proxy, sentence):
    look_up = socket.getaddrinfo

    def looked_up(host, *more, **others):
        if host == "none.invalid":  # a resolver may answer late, or with another error
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    settings = client.Configuration(host=server)
    settings.proxy = proxy
    rest = Rest(client.ApiClient(settings))
    with pytest.raises(FailureError) as told:
        await rest.get("list", TOPICS.collection())
    await rest.close()
    assert str(told.value).startswith(sentence)
