"""Without a permit, the operator sends no request that changes Kafka or Kubernetes."""

import asyncio
import gc
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.core.reassignment import Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import RATES
from rackspan.kafka import admin as admin_module
from rackspan.kafka import python_connection
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.kafka_reassignments import KafkaReassignments
from rackspan.kube import rest as rest_module
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.paths import TOPICS
from rackspan.kube.rest import Rest
from rackspan.kube.scan_runs import KubeScanRuns
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic, ObjectRef
from rackspan.reconcile.scans.job_status import RunKind

REF = ObjectRef("KafkaTopic", ObjectKey("shop", "orders"), "uid")


class Refused:
    change_timeout_seconds = 10.0

    def check(self):
        raise FailureError(Failure(Reason.LEASE_NOT_HELD, "no", Remedy.RETRY))


class Untouched:
    """A client whose methods fail the test."""

    def __getattr__(self, name):
        pytest.fail(f"{name} was called")


@pytest.mark.parametrize(
    "change",
    [
        lambda admin: admin.create_topics([NewTopic("a", 1, 1, None, {})]),
        lambda admin: admin.create_partitions([NewPartitions("a", 2, None)]),
        lambda admin: admin.alter_configs([ConfigChange("a", {"retention.ms": "1"})]),
        lambda admin: admin.delete_topics({"a": "id"}),
    ],
)
def test_kafka_topic_changes_without_a_permit_call_no_client(monkeypatch, change):
    _refused(monkeypatch, ConfluentAdmin, change)


@pytest.mark.parametrize(
    "change",
    [
        lambda admin: admin.alter({TopicPartition("a", 0): (1, 2)}),
        lambda admin: admin.elect([TopicPartition("a", 0)]),
        lambda admin: admin.set_settings({Setting(SettingKind.BROKER, "1", RATES[0]): "5"}),
    ],
)
def test_kafka_reassignment_changes_without_a_permit_call_no_client(monkeypatch, change):
    monkeypatch.setattr(python_connection, "PythonAdmin", lambda *_, **__: Untouched())
    _refused(monkeypatch, KafkaReassignments, change)


def _refused(monkeypatch, kind, change):
    monkeypatch.setattr(admin_module.client, "AdminClient", lambda _: Untouched())

    async def ask():
        admin = kind({"bootstrap.servers": "kafka:9092"}, Refused())
        try:
            await change(admin)
        finally:
            await admin.close()

    with pytest.raises(FailureError) as error:
        asyncio.run(ask())
    assert error.value.failure.reason is Reason.LEASE_NOT_HELD


@pytest.mark.parametrize(
    "change",
    [
        lambda kube, _: kube.replace_status(REF, {}),
        lambda kube, _: kube.set_finalizers(REF, [], "1", {}),
        lambda kube, _: kube.set_annotation(REF, "a", None, "1"),
        lambda kube, _: kube.set_annotation(REF, "a", "b", "1"),
        lambda _, runs: runs.start({"kind": RunKind.JOB, "metadata": {"name": "scan"}}),
    ],
)
async def test_kubernetes_changes_without_a_permit_send_no_request(change):
    api = RecordingApi(lambda _, __: pytest.fail("the API server was asked"))
    rest = Rest(api, Refused())
    with pytest.raises(FailureError) as error:
        await change(KubeCluster(rest, Untouched()), KubeScanRuns(rest, "scans"))
    assert error.value.failure.reason is Reason.LEASE_NOT_HELD
    assert not api.asked


class Lost(Refused):
    """A permit that is lost after this number of checks."""

    def __init__(self, looks):
        self.looks = looks

    def check(self):
        self.looks -= 1
        if self.looks < 0:
            super().check()


async def test_change_is_not_retried_after_429_if_the_permit_is_lost(monkeypatch):
    pause = AsyncMock()
    monkeypatch.setattr(rest_module, "_pause", pause)
    api = RecordingApi(lambda _, __: Answer(429, b"busy"))
    rest = Rest(api, Lost(1))
    with pytest.raises(FailureError) as error:
        await rest.merge_patch("patch", TOPICS.object(REF.key), {})
    assert error.value.failure.reason is Reason.LEASE_NOT_HELD
    assert ([method for method, _ in api.asked], pause.await_count) == (["PATCH"], 1)


class SlowToLogIn(RecordingApi):
    """Rejects the first token. The permit is lost during the wait for the first token, or for another one (`slow`)."""

    def __init__(self, permit, slow):
        super().__init__(lambda _, __: Answer(401))
        self._permit, self._slow = permit, slow
        self.access = SimpleNamespace(token="Bearer old", renew=self._renew)

    async def param_serialize(self, *args, **kwargs):
        self._wait("first")
        return await super().param_serialize(*args, **kwargs)

    async def _renew(self, rejected):
        self._wait("another")

    def _wait(self, which):
        if which == self._slow:
            self._permit.looks = 0


@pytest.mark.parametrize(("slow", "sent"), [("first", []), ("another", ["PATCH"])])
async def test_change_is_not_sent_if_the_permit_is_lost_while_it_waits_for_a_token(slow, sent):
    permit = Lost(9)
    api = SlowToLogIn(permit, slow)
    with pytest.raises(FailureError) as error:
        await Rest(api, permit).merge_patch("patch", TOPICS.object(REF.key), {})
    assert error.value.failure.reason is Reason.LEASE_NOT_HELD
    assert [method for method, _ in api.asked] == sent


class Slow(RecordingApi):
    """Responds after `may_answer` is set."""

    def __init__(self):
        super().__init__()
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.limits = []

    async def call_api(self, *request, _request_timeout=None):
        self.limits.append(_request_timeout)
        self.was_asked.set()
        await self.may_answer.wait()
        return await super().call_api(*request)


class Held(Refused):
    def check(self):
        """Do not raise."""


async def test_change_in_progress_continues_after_its_caller_is_cancelled():
    api = Slow()
    rest = Rest(api, Held())
    await rest.settled()
    asking = asyncio.create_task(rest.merge_patch("patch", TOPICS.object(REF.key), {}))
    await api.was_asked.wait()
    asking.cancel()
    settled = asyncio.create_task(rest.settled())
    await asyncio.wait([asking])
    assert asking.cancelled()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not settled.done(), "the change may still take effect"
    assert api.limits == [Held.change_timeout_seconds], "the request has a timeout"
    api.may_answer.set()
    async with asyncio.timeout(300):
        await settled
    assert [method for method, _ in api.asked] == ["PATCH"]


async def test_read_in_progress_ends_when_its_caller_is_cancelled():
    api = Slow()
    rest = Rest(api, Held())
    asking = asyncio.create_task(rest.get("get", TOPICS.collection()))
    await api.was_asked.wait()
    asking.cancel()
    await asyncio.wait([asking])
    async with asyncio.timeout(300):
        await rest.settled()
    assert not api.asked


async def test_change_that_fails_after_its_caller_was_cancelled_is_settled_without_a_report():
    class Broken(Slow):
        async def call_api(self, *request, _request_timeout=None):
            await super().call_api(*request, _request_timeout=_request_timeout)
            raise TimeoutError

    api = Broken()
    rest = Rest(api, Held())
    asking = asyncio.create_task(rest.merge_patch("patch", TOPICS.object(REF.key), {}))
    await api.was_asked.wait()
    asking.cancel()
    await asyncio.wait([asking])
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    api.may_answer.set()
    async with asyncio.timeout(300):
        await rest.settled()
    gc.collect()
    assert not reported


async def test_read_needs_no_permit():
    assert await Rest(RecordingApi(lambda _, __: Answer(body={})), Lost(0)).get("get", TOPICS.collection()) == {}
