"""
Brokers with arbitrary responses: a small cluster whose responses a function changes, and a proxy that fuzzes real ones.

    with HostileKafka(spoiling("Metadata", "cluster_id", None)) as kafka:
        ask(kafka.address)

    with FuzzedKafka("127.0.0.1:9092", seed=7) as kafka:
        ask(kafka.address)
        print(kafka.spoiled)

They listen on loopback, without TLS or SASL, with one port per broker.
"""

import contextlib
import multiprocessing
import random
import resource
import socket
import socketserver
import struct
import threading
import uuid
from collections import Counter

from kafka.protocol import admin, consumer, metadata, producer  # noqa: F401 - registers the classes
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer

NOT_UTF8 = "spoiled-\N{CROSS MARK}\N{CROSS MARK}"
"""In a field, this text is sent as the same number of bytes that are not UTF-8."""
_NOT_UTF8_SENT = b"spoiled-" + b"\xff\xfe\xc0\x80\xf5\xa0"
_LOOPBACK = "127.0.0.1"
_SIZE = struct.Struct(">i")
_MOST_BYTES = 64 << 20
_MOST_MEMORY = 1 << 30
"""Of the process of a FuzzedKafka, because a fuzzed length can be arbitrarily large."""
_NEWEST = {"Metadata": 12, "ApiVersions": 3}
"""Later versions of these APIs need features that are not implemented here."""
_UNKNOWN_TOPIC = 3
_FIELDS_SHARE = 0.7


def messages(suffix):
    """Return the classes of requests or responses by the name of the API, without `suffix`."""
    found, left = {}, [ApiMessage]
    while left:
        for kind in left.pop().__subclasses__():
            left.append(kind)
            if kind._class_version is None and str(kind.name).endswith(suffix):
                found[str(kind.name).removesuffix(suffix)] = kind
    return found


_REQUESTS, _RESPONSES = messages("Request"), messages("Response")
_NAMES = {kind.API_KEY: name for name, kind in _REQUESTS.items()}


def spoiling(api, path, value):
    """Return a mutation that sets a field in each response of an API: `spoiling("Metadata", "brokers.rack", NOT_UTF8)`.

    If the path contains a list, the field is set in each item.
    """
    *owners, name = path.split(".")

    def spoiled(answer):
        found = [answer] if answer.name == f"{api}Response" else []
        for owner in owners:
            found = [one for message in found for one in getattr(message, owner)]
        for message in found:
            setattr(message, name, value)
        return answer

    return spoiled


class _Asked:
    """A received request. `frame` is the complete request without its size."""

    def __init__(self, frame):
        self.frame = frame
        key, version, self.correlation_id = struct.unpack_from(">hhi", frame)
        self.name = _NAMES.get(key)
        self.version = version

    @property
    def known(self):
        return self.name in _RESPONSES and self.version <= _RESPONSES[self.name].max_version

    @property
    def message(self):
        return _REQUESTS[self.name].decode(self.frame, version=self.version, header=True)

    def answered(self, body):
        """Return the frame of a response. `body` is a message, or bytes that follow the header unchanged."""
        kind = _RESPONSES[self.name]
        message = body if isinstance(body, ApiMessage) else kind(version=self.version)
        message.with_header(correlation_id=self.correlation_id)
        header = message.encode_header(flexible=kind.flexible_version_q(self.version))
        sent = bytes(message.encode()) if message is body else body
        sent = sent.replace(NOT_UTF8.encode(), _NOT_UTF8_SENT)
        return _SIZE.pack(len(header) + len(sent)) + bytes(header) + sent

    def answer(self, frame):
        """Return the message in the frame of a response, which has no size."""
        return _RESPONSES[self.name].decode(frame, version=self.version, header=True)


class _Listeners:
    """Listening ports. Each connection has a function that returns the bytes of the response to a request."""

    def __init__(self):
        self._servers = []
        self._sockets = set()
        self._lock = threading.Lock()

    def open(self, connected):
        """Listen and return the port. `connected()` yields the function of a connection, which an OSError closes."""

        def handle(client, _address, _server):
            with self._lock:
                self._sockets.add(client)
            with contextlib.suppress(OSError, EOFError), contextlib.closing(client), connected() as answer:
                while True:
                    sent = answer(_Asked(_frame(client)))
                    if sent is not None:
                        client.sendall(sent)

        server = socketserver.ThreadingTCPServer((_LOOPBACK, 0), handle)
        server.daemon_threads, server.block_on_close = True, False
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server.server_address[1]

    def close(self):
        for server in self._servers:
            server.shutdown()
            server.server_close()
        with self._lock:
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


class HostileKafka:
    """Brokers 0, 1, … in `racks`, with `topics`: replica lists by name. All replicas are in sync.

    `mutate` gets each response, a kafka-python message such as `MetadataResponse` (`answer.name`), and returns what is
    sent: the message, changed or not; bytes, which follow the header; or None for no response. Tests may replace it at
    any time. `answered` counts responses by the name of their API, such as `Metadata`. The brokers accept changes but
    do not apply them.
    """

    def __init__(self, mutate=None, *, racks=("/a", "/b", "/c"), topics=None, cluster_id="hostile"):
        self.mutate = mutate or (lambda answer: answer)
        self.answered = Counter()
        self._racks, self._cluster_id = racks, cluster_id
        self._topics = {"orders": [[0, 1, 2], [1, 2, 0]]} if topics is None else topics
        self._ids = {name: uuid.uuid5(uuid.NAMESPACE_URL, name) for name in self._topics}
        self._listeners = _Listeners()
        self._fill = {
            "ApiVersions": self._api_versions,
            "Metadata": self._metadata,
            "DescribeCluster": self._describe_cluster,
            "DescribeConfigs": self._describe_configs,
            "DescribeLogDirs": self._describe_log_dirs,
            "ListPartitionReassignments": self._list_partition_reassignments,
            "DescribeTopicPartitions": self._describe_topic_partitions,
            "ListGroups": self._list_groups,
            "CreateTopics": self._create_topics,
            "DeleteTopics": self._delete_topics,
            "CreatePartitions": self._create_partitions,
            "IncrementalAlterConfigs": self._incremental_alter_configs,
            "AlterPartitionReassignments": self._alter_partition_reassignments,
            "ElectLeaders": self._elect_leaders,
        }

    def __enter__(self):
        self._ports = [self._listeners.open(lambda: contextlib.nullcontext(self._answered)) for _ in self._racks]
        self.address = ",".join(f"{_LOOPBACK}:{port}" for port in self._ports)
        return self

    def __exit__(self, *_):
        self._listeners.close()

    def _answered(self, asked):
        if asked.name not in self._fill or not asked.known:
            raise EOFError
        answer = _RESPONSES[asked.name](version=asked.version)
        self._fill[asked.name](asked.message, answer)
        body = self.mutate(answer)
        self.answered[asked.name] += 1
        return None if body is None else asked.answered(body)

    def _api_versions(self, _asked, answer):
        kind = type(answer).ApiVersion
        answer.api_keys = [
            kind(
                version=answer.version,
                api_key=_REQUESTS[name].API_KEY,
                min_version=0,
                max_version=min(_NEWEST.get(name, 99), *(kinds[name].max_version for kinds in (_REQUESTS, _RESPONSES))),
            )
            for name in self._fill
        ]

    def _brokers(self, kind, version, id_field):
        return [
            kind(version=version, host=_LOOPBACK, port=port, rack=rack, **{id_field: broker})
            for broker, (port, rack) in enumerate(zip(self._ports, self._racks, strict=True))
        ]

    def _metadata(self, asked, answer):
        answer.cluster_id, answer.controller_id = self._cluster_id, 0
        answer.brokers = self._brokers(answer.MetadataResponseBroker, answer.version, "node_id")
        named = asked.topics
        everything = named is None or (asked.version == 0 and not named)
        by_id = {one: name for name, one in self._ids.items()}
        names = self._topics if everything else [one.name or by_id.get(one.topic_id) for one in named]
        answer.topics = [self._topic(answer.MetadataResponseTopic, answer.version, name) for name in names]

    def claiming(self, topics):
        """Return the encoded body of a Metadata response with these topics. No client has to wait for the encoding."""
        answer = _RESPONSES["Metadata"](version=_NEWEST["Metadata"])
        there, self._topics = self._topics, topics
        self._metadata(_REQUESTS["Metadata"](version=answer.version, topics=None), answer)
        self._topics = there
        return bytes(answer.encode())

    def _topic(self, kind, version, name):
        if name not in self._topics:
            return kind(version=version, error_code=_UNKNOWN_TOPIC, name=name, topic_id=uuid.UUID(int=0))
        partitions = [
            kind.MetadataResponsePartition(
                version=version,
                partition_index=number,
                leader_id=replicas[0],
                leader_epoch=0,
                replica_nodes=list(replicas),
                isr_nodes=list(replicas),
                offline_replicas=[],
            )
            for number, replicas in enumerate(self._topics[name])
        ]
        return kind(version=version, name=name, topic_id=self._ids[name], partitions=partitions)

    def _describe_cluster(self, _asked, answer):
        answer.cluster_id, answer.controller_id = self._cluster_id, 0
        answer.brokers = self._brokers(answer.DescribeClusterBroker, answer.version, "broker_id")

    def _describe_configs(self, asked, answer):
        result = answer.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult
        answer.results = [
            result(
                version=answer.version,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                configs=[
                    entry(version=answer.version, name=name, value=value, config_source=5, is_default=True)
                    for name, value in (("min.insync.replicas", "1"), ("retention.ms", "604800000"))
                ],
            )
            for one in asked.resources
        ]

    def _describe_log_dirs(self, _asked, answer):
        answer.results = []

    def _list_partition_reassignments(self, _asked, answer):
        answer.topics = []

    def _describe_topic_partitions(self, _asked, answer):
        answer.topics, answer.next_cursor = [], None

    def _list_groups(self, _asked, answer):
        answer.groups = []

    def _create_topics(self, asked, answer):
        kind = answer.CreatableTopicResult
        answer.topics = [kind(version=answer.version, name=one.name) for one in asked.topics]

    def _delete_topics(self, asked, answer):
        kind = answer.DeletableTopicResult
        names = asked.topic_names or [one.name for one in asked.topics]
        answer.responses = [kind(version=answer.version, name=name) for name in names]

    def _create_partitions(self, asked, answer):
        kind = answer.CreatePartitionsTopicResult
        answer.results = [kind(version=answer.version, name=one.name) for one in asked.topics]

    def _incremental_alter_configs(self, asked, answer):
        kind = answer.AlterConfigsResourceResponse
        answer.responses = [
            kind(version=answer.version, resource_type=one.resource_type, resource_name=one.resource_name)
            for one in asked.resources
        ]

    def _alter_partition_reassignments(self, _asked, answer):
        answer.responses = []

    def _elect_leaders(self, _asked, answer):
        answer.replica_election_results = []


class FuzzedKafka:
    """A proxy of the brokers at `upstream` that fuzzes a `share` of their responses.

    The change only depends on `seed`, the API of the response, and its number among the responses of this API.
    `answered` counts responses by the name of their API. `spoiled` lists the changes.
    """

    def __init__(self, upstream, seed, *, share=0.2):
        self.answered = Counter()
        self.spoiled = []
        self._upstream, self._seed, self._share = upstream, seed, share
        self._listeners, self._ports, self._lock = _Listeners(), {}, threading.Lock()

    def __enter__(self):
        servers = [server.rsplit(":", 1) for server in self._upstream.split(",")]
        self.address = ",".join(f"{_LOOPBACK}:{self._port(host, int(port))}" for host, port in servers)
        return self

    def __exit__(self, *_):
        self._listeners.close()

    def _port(self, host, port):
        with self._lock:
            if (host, port) not in self._ports:
                self._ports[host, port] = self._listeners.open(lambda: self._connected(host, port))
            return self._ports[host, port]

    @contextlib.contextmanager
    def _connected(self, host, port):
        with socket.create_connection((host, port)) as broker:

            def answered(asked):
                broker.sendall(_SIZE.pack(len(asked.frame)) + asked.frame)
                return self._passed_on(asked, _frame(broker))

            yield answered

    def _passed_on(self, asked, frame):
        with self._lock:
            number = self.answered[asked.name]
            self.answered[asked.name] += 1
        if not asked.known:
            return _SIZE.pack(len(frame)) + frame
        answer = asked.answer(frame)
        self._redirect(answer)
        chance = random.Random(f"{self._seed}/{asked.name}/{number}")
        if chance.random() >= self._share:
            return asked.answered(answer)
        told, sent = _spoiled(asked, answer, chance)
        self.spoiled.append(f"{asked.name} v{asked.version} #{number}: {told}")
        return sent

    def _redirect(self, answer):
        """Replace the ports by those of the proxy, and limit versions to those that can be decoded here."""
        if answer.name == "ApiVersionsResponse":
            answer.api_keys = [one for one in answer.api_keys if _NAMES.get(one.api_key) in _RESPONSES]
            for one in answer.api_keys:
                name = _NAMES[one.api_key]
                one.max_version = min(one.max_version, _RESPONSES[name].max_version, _REQUESTS[name].max_version)
            return
        for owner, field, _ in list(_places(answer, answer.version)):
            if field.name == "port" and owner.host and owner.port > 0:
                owner.port = self._port(owner.host, owner.port)
                owner.host = _LOOPBACK


class FuzzedKafkas:
    """A `FuzzedKafka` for each seed in a separate process, so that it does not use the memory of the test."""

    def __init__(self, upstream, *, share):
        self._upstream, self._share = upstream, share
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._lock = threading.Lock()
        self._open = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, _pipe in self._open.values():
            process.kill()
            process.join()

    def open(self, seed):
        """Start the FuzzedKafka with this seed and return its address."""
        pipe, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._upstream, seed, self._share), daemon=True)
        with self._lock:
            process.start()
            self._open[seed] = process, pipe
        theirs.close()
        return pipe.recv()

    def close(self, seed):
        """Stop one and return the numbers of its responses and of fuzzed ones, or zeros if it ran out of memory."""
        process, pipe = self._open.pop(seed)
        try:
            pipe.send("close")
            return pipe.recv()
        except (EOFError, OSError):
            return 0, 0
        finally:
            process.kill()
            process.join()


def _serve(pipe, upstream, seed, share):
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    with FuzzedKafka(upstream, seed, share=share) as one:
        pipe.send(one.address)
        pipe.recv()
        pipe.send((sum(one.answered.values()), len(one.spoiled)))


def _spoiled(asked, answer, chance):
    """Fuzz a response. Return a description of the change and the frame."""
    whole = bytes(answer.encode())
    if chance.random() < _FIELDS_SHARE:
        told = [_spoil_field(answer, chance) for _ in range(chance.choice((1, 1, 2, 4)))]
        with contextlib.suppress(Exception):  # if the message cannot be encoded, fuzz its bytes
            return ", ".join(told), asked.answered(answer)
    told, body = _spoil_bytes(whole, chance)
    return told, asked.answered(body)


def _places(message, version, path=""):
    """Yield owner, field and path of each value in a message of this version and in nested messages."""
    for name, field in message.fields.items():
        if not field.for_version_q(version):
            continue
        value = getattr(message, name)
        yield message, field, f"{path}{name}"
        inner = value if isinstance(value, list) else [value]
        for number, one in enumerate(inner):
            if isinstance(one, DataContainer):
                yield from _places(one, version, f"{path}{name}{f'[{number}]' if inner is value else ''}.")


def _spoil_field(message, chance):
    owner, field, path = chance.choice(
        [place for place in _places(message, message.version) if place[1].name != "port"]
    )
    value = getattr(owner, field.name)
    spoiled = chance.choice(_spoiled_values(value, chance))
    setattr(owner, field.name, spoiled)
    return f"{path} = {str(spoiled)[:40]}"


def _spoiled_values(value, chance):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [0, 1, -1, 127, -128, 2**15 - 1, 2**31 - 1, -(2**31), 2**63 - 1, chance.getrandbits(31)]
    if isinstance(value, list):
        some = value[:1]
        return [[], None, some, value[1:], value + some, value * 3, some * 1000, some * 50_000]
    if isinstance(value, bytes | bytearray | memoryview):
        return [b"", None, chance.randbytes(20), bytes(value)[:-1], bytes(value) * 2]
    if isinstance(value, uuid.UUID):
        return [uuid.UUID(int=0), uuid.UUID(int=chance.getrandbits(128))]
    return [None, NOT_UTF8, "", "\0", "\x1b[31m", "a" * 249, "a" * 30_000, "../../etc", "\N{PILE OF POO}"]


def _spoil_bytes(body, chance):
    at = chance.randrange(len(body) + 1)
    some = chance.randbytes(chance.choice((1, 2, 4)))
    changes = {
        f"{some.hex()} at {at}": body[:at] + some + body[at + len(some) :],
        f"{some.hex()} inserted at {at}": body[:at] + some + body[at:],
        f"ff at {at}": body[:at] + b"\xff" * len(some) + body[at + len(some) :],
        f"00 at {at}": body[:at] + b"\0" * len(some) + body[at + len(some) :],
        f"cut at {at}": body[:at],
        f"{at} bytes again": body + body[:at],
    }
    told = chance.choice(list(changes))
    return told, changes[told]


def _frame(stream):
    (size,) = _SIZE.unpack(_read(stream, _SIZE.size))
    if not 0 <= size <= _MOST_BYTES:
        raise EOFError
    return _read(stream, size)


def _read(stream, size):
    parts = []
    while size:
        part = stream.recv(min(size, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
