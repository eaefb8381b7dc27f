"""`rackspan release` reports what it cannot release."""

import asyncio

import pytest
from tests.support.command import cli

from rackspan.api.meta import Meta, ObjectKey
from rackspan.api.reasons import Reason
from rackspan.cli.actions import releasing_objects as release
from rackspan.cli.actions.releasing_objects import _cordons
from rackspan.kube import kube_cluster
from rackspan.reconcile import uninstall
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Listed


class Kube:
    async def objects(self, kind):
        assert kind == "RackTopology"
        for name, status in (("prod", {"cordons": [3, 4]}), ("new", None), ("calm", {"cordons": []})):
            yield {"metadata": {"namespace": "kafka", "name": name}, "status": status}


async def test_release_names_brokers_that_are_still_cordoned():
    (told,) = await _cordons(Kube())
    assert told == (
        "kafka/prod: 2 brokers are still cordoned in Kafka for a drain: 3, 4; to place replicas there again, "
        "delete cordoned.log.dirs there"
    )


async def test_release_reports_cordons_left_in_kafka_and_not_those_of_the_status():
    assert await _cordons(Kube(), {ObjectKey("kafka", "prod"): ()}) == []
    (told,) = await _cordons(Kube(), {ObjectKey("kafka", "prod"): (4,), ObjectKey("other", "prod"): (1,)})
    assert told.startswith("kafka/prod: 1 broker is still cordoned in Kafka for a drain: 4;")


class Rest:
    """A client that sends no request."""

    def __init__(self, *_):
        pass

    async def close(self):
        pass


@pytest.mark.parametrize(
    ("module", "step", "told"),
    [
        (release, "scale_to_zero", "Deployment rackspan/rackspan still has Pods"),
        (release, "_leave_kafka", "throttles and cordons could not all be taken off in Kafka"),
        (uninstall, "release", "objects still have their finalizer, or get it back: is an operator running?"),
    ],
)
def test_release_names_the_step_that_times_out(monkeypatch, module, step, told):
    async def at_once(*_, **__):
        return ()

    async def all_readable(*_):
        return Listed({})

    async def never(*_, **__):
        await asyncio.sleep(60)

    monkeypatch.setattr(release, "connect", at_once)
    monkeypatch.setattr(release, "Rest", Rest)
    for name in ("_leave_kafka", "_cordons"):
        monkeypatch.setattr(release, name, at_once)
    monkeypatch.setattr(kube_cluster.KubeCluster, "listed", all_readable)
    monkeypatch.setattr(release, "scale_to_zero", at_once)
    monkeypatch.setattr(module, step, never)
    monkeypatch.setattr(release, "_PATIENCE_SECONDS", 2)
    ran = cli("release", "--operator", "rackspan/rackspan")
    assert (ran.code, ran.error) == (2, f"after 2 s: {told}")
    assert ran.hint


@pytest.mark.parametrize(("there", "released"), [(("mine", "theirs"), ("mine",)), (("theirs",), None)])
def test_namespace_without_read_permission_is_reported_and_does_not_block_others(monkeypatch, there, released):
    class Namespaces:
        """Namespaces, of which `theirs` does not allow listing KafkaTopics."""

        def __init__(self, _rest, _events, namespaces):
            self.namespaces = tuple(namespaces)

        async def listed(self, kind):
            return Listed({}, frozenset({"theirs"} if kind == "KafkaTopic" else ()))

        async def with_finalizer(self, _kind):
            return ()

    async def nothing(*_, **__):
        return ()

    async def one_of_each(kube, *, leaving_only):
        seen.append(kube.namespaces)
        assert not leaving_only
        return uninstall.Released(dict.fromkeys(uninstall.KINDS, 1), {})

    seen = []
    monkeypatch.setattr(release, "connect", nothing)
    monkeypatch.setattr(release, "Rest", Rest)
    monkeypatch.setattr(release, "KubeCluster", Namespaces)
    monkeypatch.setattr(uninstall, "release", one_of_each)
    monkeypatch.setattr(release, "_NO_NEW_FINALIZER_SECONDS", 0.0)
    for name in ("_leave_kafka", "_cordons"):
        monkeypatch.setattr(release, name, nothing)
    ran = cli("release", *(word for name in there for word in ("-n", name)))
    assert seen == ([released] if released else [])
    assert (ran.code, ran.error) == (2, "may not be read, and nothing is released there: namespace theirs")
    assert ran.out.startswith("released 1 KafkaTopic, ") is bool(released)


@pytest.mark.parametrize(("without", "code"), [((), 0), (("theirs",), 2)])
def test_namespace_without_write_permission_is_reported_and_does_not_block_others(monkeypatch, without, code):
    class Objects:
        """A KafkaTopic in each of two namespaces; those in `without` may not be changed."""

        def __init__(self, *_):
            pass

        async def with_finalizer(self, kind):
            return [Meta("orders", name, f"uid-{name}") for name in held] if kind == "KafkaTopic" else ()

        async def set_finalizers(self, ref, finalizers, version, annotations):
            if ref.key.namespace in without:
                raise FailureError(Failure(Reason.NOT_AUTHORIZED, "PATCH orders: 403", Remedy.ACCESS))
            held.remove(ref.key.namespace)
            return {}

    async def nothing(*_, **__):
        return ()

    held = ["theirs", "mine"]
    monkeypatch.setattr(release, "connect", nothing)
    monkeypatch.setattr(release, "Rest", Rest)
    monkeypatch.setattr(release, "KubeCluster", Objects)
    monkeypatch.setattr(release, "_NO_NEW_FINALIZER_SECONDS", 0.0)
    for name in ("_leave_kafka", "_cordons"):
        monkeypatch.setattr(release, name, nothing)
    ran = cli("release")
    assert held == list(without)
    assert ran.code == code
    assert ran.out.startswith(f"released {2 - len(without)} KafkaTopic")
    if without:
        assert ran.error == "may not be changed, and the finalizer stays: KafkaTopic theirs/orders (PATCH orders: 403)"
        assert ran.hint == "run it again with the rights of the operator there"
