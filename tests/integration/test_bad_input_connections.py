"""A RackTopology that cannot connect reports the reason, its topics wait, and both recover after the correction."""

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
    """Create a topology with this `spec.kafka` and a topic. Check that both report the reason and the topic waits."""
    secure.create_topology(spec)
    secure.objects.create_topic("orders")
    secure.objects.until_topology(type_, "True", reason)
    # The first attempt may end with another message: a name server is slow, or the client writes to a broker that has
    # closed the connection, before it reads why.
    told = secure.objects.until("RackTopology", "kafka", lambda obj: promise.is_kept_by(obj, type_), "to say why")
    assert condition(told, "Ready")["status"] == condition(told, "Connected")["status"] == "False"
    assert condition(told, "Connected")["reason"] == reason
    secure.objects.until_not_ready("orders", "TopologyNotReady")

    def waits(topic):
        found = condition(topic, "Reconciling")
        return found is not None and found["message"].startswith(f"{reason}: ")

    secure.objects.until("KafkaTopic", "orders", waits, f"to wait because of {reason}")


def _goes_on(secure):
    secure.objects.until_ready("orders")  # waits for an attempt without a response and the longest backoff after it
    told = secure.objects.until_topology()
    assert condition(told, "Stalled") is condition(told, "Reconciling") is None


def test_missing_secret_stalls_topology_until_it_is_created(secure, promise):
    spec = secure.spec("SASL_SSL", sasl={"mechanism": "PLAIN", "secretRef": {"name": "later"}})
    _refused(secure, spec, "Stalled", "SecretNotFound", promise)
    secure.secret("later", username=USER, password=secure.password)
    _goes_on(secure)


def test_secret_without_password_key_stalls_topology_until_it_is_added(secure, promise):
    secure.secret("user", username=USER, pass_word=secure.password)
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "SecretNotFound", promise)
    secure.secret("user", username=USER, password=secure.password)
    _goes_on(secure)


def test_secret_with_binary_password_stalls_topology(secure, promise):
    secure.secret("user", username=USER, password=b"\xff\xfe\xff")
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "SecretNotFound", promise)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_wrong_password_stalls_topology_until_it_is_corrected(mechanism, secure, promise):
    secure.secret("user", username=USER, password="wrong")
    _refused(secure, secure.spec("SASL_SSL", mechanism), "Stalled", "AuthenticationFailed", promise)
    secure.secret("user", username=USER, password=secure.password)
    _goes_on(secure)


def test_empty_password_stalls_topology(secure, promise):
    secure.secret("user", username=USER, password="")
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "SecretNotFound", promise)


def test_wrong_certificate_authority_stalls_topology_until_it_is_corrected(secure, other_ca, promise):
    secure.secret("ca", ca_crt=other_ca.cert.read_text())
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "TlsFailed", promise)
    secure.secret("ca", ca_crt=secure.ca)
    _goes_on(secure)


def test_invalid_ca_certificate_stalls_topology_until_it_is_corrected(secure, promise):
    secure.secret("ca", ca_crt="see the wiki")
    _refused(secure, secure.spec("SASL_SSL"), "Stalled", "TlsFailed", promise)
    secure.secret("ca", ca_crt=secure.ca)
    _goes_on(secure)


def test_client_certificate_with_wrong_key_stalls_topology(secure, other_ca, promise):
    mine, theirs = secure.kafka.client_certificate, other_ca.client("other", "somebody")
    secure.secret("client", tls_crt=mine.cert.read_text(), tls_key=theirs.key.read_text())
    _refused(secure, secure.spec("SSL"), "Stalled", "TlsFailed", promise)


def test_missing_client_certificate_stalls_topology(secure, promise):
    spec = secure.spec("SSL", tls={"caSecretRef": {"name": "ca"}})
    _refused(secure, spec, "Stalled", "TlsFailed", promise)


def test_host_not_in_broker_certificate_stalls_topology_unless_verification_is_off(secure, promise):
    broker = int(secure.kafka.bootstrap("SASL_SSL").split(",")[0].rpartition(":")[2])
    with _relay(broker) as address:
        spec = secure.spec("SASL_SSL", bootstrapServers=address)
        _refused(secure, spec, "Stalled", "TlsFailed", promise)
        secure.objects.change_topology(kafka={"tls": {"verifyHostname": False}})
        _goes_on(secure)


def test_tls_at_a_plain_text_port_stalls_topology_until_tls_is_removed(secure, promise):
    spec = secure.spec("SASL_SSL", bootstrapServers=secure.kafka.bootstrap("SASL_PLAINTEXT"))
    _refused(secure, spec, "Stalled", "TlsFailed", promise)
    secure.objects.change_topology(kafka={"tls": None})
    _goes_on(secure)


def test_plain_text_at_a_tls_port_is_retried_as_kafka_unreachable(secure, promise):
    spec = secure.spec("INTERNAL", bootstrapServers=secure.kafka.bootstrap("SSL"))
    _refused(secure, spec, "Reconciling", "KafkaUnreachable", promise)
    secure.objects.change_topology(kafka=secure.spec("SSL"))
    _goes_on(secure)


def test_login_at_a_listener_without_sasl_stalls_topology(secure, promise):
    spec = secure.spec("SASL_PLAINTEXT", bootstrapServers=secure.kafka.bootstrap())
    _refused(secure, spec, "Stalled", "AuthenticationFailed", promise)


def test_closed_port_is_retried_as_kafka_unreachable(secure, promise):
    (port,) = free_ports(1)
    spec = secure.spec("INTERNAL", bootstrapServers=f"127.0.0.1:{port}")
    _refused(secure, spec, "Reconciling", "KafkaUnreachable", promise)
    secure.objects.change_topology(kafka=secure.spec("INTERNAL"))
    _goes_on(secure)


def test_unknown_host_is_retried_as_kafka_unreachable(secure, promise):
    spec = secure.spec("INTERNAL", bootstrapServers="kafka.invalid:9092")
    _refused(secure, spec, "Reconciling", "KafkaUnreachable", promise)


def test_topology_stays_connected_if_some_bootstrap_hosts_are_unknown(secure, operator):
    """A host name disappears with the pod of a broker."""
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
    expected = "connected to", "resolve", "answer", "imed out"  # a busy Kafka may answer late
    assert [line for line in told if not any(words in line for words in expected)] == []
    assert condition(secure.objects.topology(), "Connected")["status"] == "True"


def test_invalid_client_property_value_stalls_topology_until_it_is_removed(secure, promise):
    kafka = secure.spec("INTERNAL", properties={"socket.timeout.ms": "soon"})
    _refused(secure, kafka, "Stalled", "InvalidSpec", promise)
    secure.objects.change_topology(kafka={"properties": None})
    _goes_on(secure)


def test_cluster_id_other_than_in_the_spec_stalls_topology_until_it_is_corrected(secure, promise):
    _refused(
        secure, secure.spec("INTERNAL", clusterId="AAAAAAAAAAAAAAAAAAAAAA"), "Stalled", "ClusterIdMismatch", promise
    )
    secure.objects.change_topology(kafka={"clusterId": secure.kafka.cluster_id})
    _goes_on(secure)


def test_bootstrap_servers_of_another_cluster_stall_topology_and_existing_topics(secure, kafka, topics, promise):
    secure.create_topology(secure.spec("INTERNAL"))
    secure.objects.create_topic("orders")
    before = secure.objects.until_ready("orders")  # immediate: the status of the topology is not written yet
    secure.objects.change_topology(kafka={"bootstrapServers": kafka.bootstrap()})
    told = secure.objects.until_topology("Stalled", "True", "ClusterIdMismatch")
    secure.objects.create_topic("new")
    secure.objects.until_not_ready("new", "TopologyNotReady")
    promise.kept_by(told)

    # Naming the other cluster does not move topics to it: they belong to the first cluster.
    secure.objects.change_topology(kafka={"clusterId": kafka.cluster_id})
    stalled = secure.objects.until_stalled("orders", "ClusterIdMismatch")
    assert stalled["status"]["topicId"] == before["status"]["topicId"]
    assert not topics.exists(secure.objects.kafka_name("orders"))
    secure.objects.until_ready("new")
    promise.kept_by(stalled)


@contextlib.contextmanager
def _relay(port):
    """Yield another loopback address that relays to the listener of a broker and is in no certificate."""
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
