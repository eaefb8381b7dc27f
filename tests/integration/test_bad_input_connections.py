"""A RackTopology that cannot connect: it says why, its topics wait, and all goes on once it is fixed."""

import contextlib
import selectors
import socket
import threading

import pytest
from dev.stack.certificates import CertificateAuthority
from dev.stack.processes import free_ports
from tests.support.objects import condition
from tests.support.secure import USER, Secure


@pytest.fixture
def secure(objects, secure_kafka, operator) -> Secure:
    secure = Secure(objects, secure_kafka)
    secure.default_secrets()
    return secure


@pytest.fixture
def other_ca(tmp_path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "other-ca")


def _refused(secure, spec, type_, reason, promise):
    """A topology with that `spec.kafka` and a topic of it: both say what is wrong, and the topic waits."""
    secure.create_topology(spec)
    secure.objects.create_topic("orders")
    told = secure.objects.until_topology(type_, "True", reason)
    assert condition(told, "Ready")["status"] == condition(told, "Connected")["status"] == "False"
    assert condition(told, "Connected")["reason"] == reason
    secure.objects.until_not_ready("orders", "TopologyNotReady")

    def waits(topic):
        found = condition(topic, "Reconciling")
        return found is not None and found["message"].startswith(f"{reason}: ")

    secure.objects.until("KafkaTopic", "orders", waits, f"to wait because of {reason}")
    promise.kept_by(told, type_)


def _goes_on(secure):
    secure.objects.until_ready("orders")  # an attempt that gets no answer, and the longest pause after it
    told = secure.objects.until_topology()
    assert condition(told, "Stalled") is condition(told, "Reconciling") is None


def test_a_secret_that_is_not_there(secure, promise):
    spec = secure.spec("SASL_SSL", sasl={"mechanism": "PLAIN", "secretRef": {"name": "later"}})
    _refused(secure, spec, "Stalled", "SecretNotFound", promise)
    secure.secret("later", username=USER, password=secure.password)
    _goes_on(secure)


def test_a_secret_without_the_key(secure, promise):
    secure.secret("user", username=USER, pass_word=secure.password)
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "SecretNotFound", promise)
    secure.secret("user", username=USER, password=secure.password)
    _goes_on(secure)


def test_a_secret_that_is_not_text(secure, promise):
    secure.secret("user", username=USER, password=b"\xff\xfe\xff")
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "SecretNotFound", promise)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password(mechanism, secure, promise):
    secure.secret("user", username=USER, password="wrong")
    _refused(secure, secure.spec("SASL_SSL", mechanism), "Stalled", "AuthenticationFailed", promise)
    secure.secret("user", username=USER, password=secure.password)
    _goes_on(secure)


def test_an_empty_password(secure, promise):
    secure.secret("user", username=USER, password="")
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "SecretNotFound", promise)


def test_another_certificate_authority(secure, other_ca, promise):
    secure.secret("ca", ca_crt=other_ca.cert.read_text())
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "TlsFailed", promise)
    secure.secret("ca", ca_crt=secure.ca)
    _goes_on(secure)


def test_a_certificate_authority_that_is_no_certificate(secure, promise):
    secure.secret("ca", ca_crt="see the wiki")
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "TlsFailed", promise)
    secure.secret("ca", ca_crt=secure.ca)
    _goes_on(secure)


def test_a_client_certificate_with_another_key(secure, other_ca, promise):
    mine, theirs = secure.kafka.client_certificate, other_ca.client("other", "somebody")
    secure.secret("client", tls_crt=mine.cert.read_text(), tls_key=theirs.key.read_text())
    _refused(secure, secure.spec("SSL"), "Stalled", "TlsFailed", promise)


def test_no_client_certificate_where_one_is_required(secure, promise):
    spec = secure.spec("SSL", tls={"caSecretRef": {"name": "ca"}})
    _refused(secure, spec, "Stalled", "TlsFailed", promise)


def test_a_host_that_is_not_in_the_certificate(secure, promise):
    broker = int(secure.kafka.bootstrap("SASL_SSL").split(",")[0].rpartition(":")[2])
    with _relay(broker) as address:
        spec = secure.spec("SASL_SSL", bootstrapServers=address)
        _refused(secure, spec, "Stalled", "TlsFailed", promise)
        secure.objects.change_topology(kafka={"tls": {"verifyHostname": False}})
        _goes_on(secure)


def test_tls_at_a_plain_text_port(secure, promise):
    spec = secure.spec("SASL_SSL", bootstrapServers=secure.kafka.bootstrap("SASL_PLAINTEXT"))
    _refused(secure, spec, "Stalled", "TlsFailed", promise)
    secure.objects.change_topology(kafka={"tls": None})
    _goes_on(secure)


def test_plain_text_at_a_tls_port(secure, promise):
    spec = secure.spec("INTERNAL", bootstrapServers=secure.kafka.bootstrap("SSL"))
    _refused(secure, spec, "Reconciling", "KafkaUnreachable", promise)
    secure.objects.change_topology(kafka=secure.spec("SSL"))
    _goes_on(secure)


def test_log_in_where_nobody_asks_for_it(secure, promise):
    spec = secure.spec("SASL_PLAINTEXT", bootstrapServers=secure.kafka.bootstrap())
    _refused(secure, spec, "Stalled", "AuthenticationFailed", promise)


def test_nobody_listens_there(secure, promise):
    (port,) = free_ports(1)
    spec = secure.spec("INTERNAL", bootstrapServers=f"127.0.0.1:{port}")
    _refused(secure, spec, "Reconciling", "KafkaUnreachable", promise)
    secure.objects.change_topology(kafka=secure.spec("INTERNAL"))
    _goes_on(secure)


def test_a_host_that_does_not_exist(secure, promise):
    spec = secure.spec("INTERNAL", bootstrapServers="kafka.invalid:9092")
    _refused(secure, spec, "Reconciling", "KafkaUnreachable", promise)


def test_one_of_several_hosts_does_not_exist(secure, operator):
    """As when a broker's pod is gone, and its name with it."""
    servers = f"kafka-0.invalid:9092,kafka-1.invalid:9092,{secure.kafka.bootstrap()}"
    secure.create_topology(secure.spec("INTERNAL", bootstrapServers=servers))
    secure.objects.create_topic("orders")
    secure.objects.until_ready("orders")
    polled = operator.metric("rackspan_kafka_request_seconds_count", operation="describe_cluster")
    secure.objects.until(
        "RackTopology",
        "kafka",
        lambda _: operator.metric("rackspan_kafka_request_seconds_count", operation="describe_cluster") > polled + 8,
        "to be asked about some more times",
    )
    where = f"topology {secure.objects.namespace}/kafka: "
    told = [line["message"] for line in operator.log if line["message"].startswith(where)]
    assert any("connected to" in line for line in told)
    assert [line for line in told if "connected to" not in line and "resolve" not in line] == []
    assert condition(secure.objects.topology(), "Connected")["status"] == "True"


def test_a_value_that_a_client_property_does_not_take(secure, promise):
    kafka = secure.spec("INTERNAL", properties={"socket.timeout.ms": "soon"})
    _refused(secure, kafka, "Stalled", "InvalidSpec", promise)
    secure.objects.change_topology(kafka={"properties": None})
    _goes_on(secure)


def test_another_cluster_than_the_one_that_is_named(secure, promise):
    _refused(
        secure, secure.spec("INTERNAL", clusterId="AAAAAAAAAAAAAAAAAAAAAA"), "Stalled", "ClusterIdMismatch", promise
    )
    secure.objects.change_topology(kafka={"clusterId": secure.kafka.cluster_id})
    _goes_on(secure)


def test_another_cluster_than_the_one_first_met(secure, kafka, topics, promise):
    secure.create_topology(secure.spec("INTERNAL"))
    secure.objects.create_topic("orders")
    before = secure.objects.until_ready("orders")  # at once, before the topology's own status has been written
    secure.objects.change_topology(kafka={"bootstrapServers": kafka.bootstrap()})
    told = secure.objects.until_topology("Stalled", "True", "ClusterIdMismatch")
    secure.objects.create_topic("new")
    secure.objects.until_not_ready("new", "TopologyNotReady")
    promise.kept_by(told)

    # Even who names the other cluster does not carry topics over to it: they belong to the first.
    secure.objects.change_topology(kafka={"clusterId": kafka.cluster_id})
    stalled = secure.objects.until_stalled("orders", "ClusterIdMismatch")
    assert stalled["status"]["topicId"] == before["status"]["topicId"]
    assert not topics.exists(secure.objects.kafka_name("orders"))
    secure.objects.until_ready("new")
    promise.kept_by(stalled)


@contextlib.contextmanager
def _relay(port):
    """The broker's listener under another loopback address, which is in no certificate."""
    with socket.create_server(("127.0.0.2", 0)) as server:
        stop = threading.Event()
        thread = threading.Thread(target=_serve, args=(server, port, stop))
        thread.start()
        try:
            yield f"127.0.0.2:{server.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def _serve(server, port, stop):
    with selectors.DefaultSelector() as ready:
        ready.register(server, selectors.EVENT_READ)
        while not stop.is_set():
            for key, _ in ready.select(0.2):
                if key.fileobj is server:
                    near, far = server.accept()[0], socket.create_connection(("127.0.0.1", port))
                    ready.register(near, selectors.EVENT_READ, far)
                    ready.register(far, selectors.EVENT_READ, near)
                elif not _carried(key.fileobj, key.data):
                    for end in (key.fileobj, key.data):
                        ready.unregister(end)
                        end.close()
                    break
        for key in list(ready.get_map().values()):
            if key.fileobj is not server:
                key.fileobj.close()


def _carried(source, sink):
    try:
        data = source.recv(65536)
        sink.sendall(data)
    except OSError:
        return False
    return bool(data)
