"""Objects that the API server must accept and reject, for each rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.schemas import Rule

from rackspan.api.client_properties import CLIENT_PROPERTIES

Patch = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One rule with merge patches for the base manifest of its kind: some that it accepts, some that it rejects.

    `sentence` is the message for the user, if it differs from the static message of the rule. For a rule about
    changes, `before` is the patch for the existing object.
    """

    rule: Rule
    accepted: tuple[Patch, ...]
    rejected: tuple[Patch, ...]
    sentence: str | None = None
    before: Patch | None = None


def _topic(
    path: str,
    message: str,
    *,
    accepted: list[Patch],
    rejected: list[Patch],
    sentence: str | None = None,
    before: Patch | None = None,
    metadata: Mapping[str, list[Patch]] | None = None,
) -> Case:
    whole = metadata or {}
    return Case(
        Rule("KafkaTopic", path, message),
        tuple({"spec": patch} for patch in accepted) + tuple(whole.get("accepted", ())),
        tuple({"spec": patch} for patch in rejected) + tuple(whole.get("rejected", ())),
        sentence,
        None if before is None else {"spec": before},
    )


def _topology(path: str, message: str, *, accepted: list[Patch], rejected: list[Patch]) -> Case:
    return Case(
        Rule("RackTopology", path, message),
        tuple({"spec": patch} for patch in accepted),
        tuple({"spec": patch} for patch in rejected),
    )


def _window(**window: str) -> Patch:
    return {"reassignment": {"windows": [{"schedule": "@daily", "duration": "4h", **window}]}}


_CONSISTS = "name consists of lower-case letters, digits, and inner hyphens and dots."
_NAMES = ("kafka", "kafka.user-1", "0")
_NO_NAMES = (
    "../../victim/secrets/db",
    "..%2fvictim",
    "%2e%2e",
    ".",
    "..",
    "a..b",
    "a/b",
    "a?b",
    "a#b",
    "a b",
    "a\n",
    "a\0",
    "-a",
    "a.",
    "A",
    "é",
)
_NO_NAMESPACES = ("../kube-system", "..", "Kafka", "a.b", "a/b", "-a", "a_b", "a\n", "a%2fb", "a?b")
_HASH = "approvedPlan is the hash of a plan in full, such as 0123456789abcdef0123456789abcdef"
_HASHES = ("0123456789abcdef" * 2, "f" * 32)
_NO_HASHES = tuple("0123456789abcdef" + end for end in ("0123456789ABCDEF", "0123456789abcdeg", "0123456789abcde\n"))
_SECRET_KEYS = ("tls-ca.crt", "USER_1", "7")
_NO_SECRET_KEYS = ("a/b", "a b", "a\n", "a%b", "a\0", "é")


def _placed(**placement: Any) -> Patch:
    return {"placement": placement}


def _durable(**durability: Any) -> Patch:
    return {"durability": durability}


_MIN_ISR = "min.insync.replicas"
_ZEROS = "0" * 4095
_PATTERN = 'is a broker id such as "12" or a rack pattern such as /eu/*/r1, without spaces or empty steps.'
_PATH = "is a rack path such as /eu/eu-1a, without spaces, wildcards or empty steps."
_GOOD_PATHS = ["/eu", "/eu/eu-1a", "eu/eu-1a", "use1-az1", "/Rack_1.a", "/région/ü"]
_BAD_PATHS = ["/", "//", "/eu//r1", "eu/", "/eu /r1", " /eu", "/eu/*", "/eu\u00a0", "/eu\t", "/eu/\u0007"]
_GOOD_PATTERNS = ["12", "0", "/eu", "/eu/*/r1", "*/eu-1a", "/eu/r?", "/eu/r*"]
_BAD_PATTERNS = ["/", "/eu//r1", "/eu/", "1, 2", "/eu/r 1", "\t"]

TOPIC_CASES = [
    _topic(
        "",
        "metadata.name is longer than the 249 characters of a Kafka topic name. Set spec.topicName.",
        accepted=[],
        rejected=[],
        metadata={
            "accepted": [
                {"metadata": {"name": "a" * 249}},
                {"metadata": {"name": "a" * 253}, "spec": {"topicName": "short"}},
            ],
            "rejected": [{"metadata": {"name": "a" * 250}}],
        },
    ),
    _topic(
        "",
        "A topic's name cannot change, because Kafka cannot rename a topic.",
        sentence="The name of topic orders cannot change, because Kafka cannot rename a topic. "
        "Make another KafkaTopic.",
        before={},
        accepted=[{"topicName": "orders"}, {"partitions": 7}],
        rejected=[{"topicName": "other"}],
    ),
    _topic(
        "spec",
        "The assignment must have one row for each partition.",
        sentence="The assignment has 2 rows, but partitions is 3. It must have one row for each partition.",
        accepted=[{"partitions": 2, "replicationFactor": 1, **_placed(assignment=[[0], [1]])}],
        rejected=[{"partitions": 3, "replicationFactor": 1, **_placed(assignment=[[0], [1]])}],
    ),
    _topic(
        "spec",
        "Every row of the assignment must have as many brokers as replicationFactor says.",
        sentence="Every row of the assignment must have as many brokers as replicationFactor says, which is 2.",
        accepted=[{"partitions": 2, "replicationFactor": 2, **_placed(assignment=[[0, 1], [1, 2]])}],
        rejected=[
            {"partitions": 2, "replicationFactor": 2, **_placed(assignment=[[0, 1], [1]])},
            {"partitions": 2, "replicationFactor": 2, **_placed(assignment=[[0, 1, 2], [1, 2, 0]])},
        ],
    ),
    _topic(
        "spec",
        "min.insync.replicas is above replicationFactor, and Kafka takes the smaller of the two.",
        sentence="min.insync.replicas is 4, above the replicationFactor of 3, and Kafka takes the smaller of the two.",
        accepted=[{"config": {_MIN_ISR: value}} for value in (3, "3", _ZEROS + "3")]
        + [{"config": {"retention.ms": 4}}],
        rejected=[{"config": {_MIN_ISR: value}} for value in (4, "4", "000004", _ZEROS + "4")],
    ),
    _topic(
        "spec",
        "A count in minDomains is above replicationFactor, and a replica is in one domain of a level only.",
        sentence="A count in minDomains is above the replicationFactor of 3, and a replica is in one domain of a level "
        "only.",
        accepted=[_durable(minDomains={"zone": 3}), _durable(minDomains={})],
        rejected=[_durable(minDomains={"zone": 4}), _durable(minDomains={"region": 1, "zone": 4})],
    ),
    _topic(
        "spec",
        "To tolerate the loss of n domains a topic needs a replicationFactor of n + 1 or more.",
        sentence="To tolerate the loss of n domains a topic needs a replicationFactor of n + 1 or more, and it is 3.",
        accepted=[_durable(tolerate={"zone": 2})],
        rejected=[_durable(tolerate={"zone": 3}), _durable(tolerate={"region": 1, "zone": 3})],
    ),
    _topic(
        "spec",
        "tolerate and min.insync.replicas contradict each other. A topic that loses n domains keeps at most "
        "replicationFactor - n replicas, fewer than min.insync.replicas.",
        accepted=[{"config": {_MIN_ISR: 2}, **_durable(tolerate={"zone": 1})}],
        rejected=[
            {"config": {_MIN_ISR: 3}, **_durable(tolerate={"zone": 1})},
            {"config": {_MIN_ISR: "2"}, **_durable(tolerate={"zone": 2})},
            {"config": {_MIN_ISR: "000003"}, **_durable(tolerate={"zone": 1})},
        ],
    ),
    _topic(
        "spec",
        "minDomains and min.insync.replicas contradict each other. A write that min.insync.replicas replicas "
        "acknowledge cannot have reached more domains than that.",
        accepted=[{"config": {_MIN_ISR: 2}, **_durable(minDomains={"zone": 2})}],
        rejected=[
            {"config": {_MIN_ISR: 1}, **_durable(minDomains={"zone": 2})},
            {"config": {_MIN_ISR: "1"}, **_durable(minDomains={"zone": 2})},
            {"config": {_MIN_ISR: "000001"}, **_durable(minDomains={"zone": 2})},
        ],
    ),
    _topic(
        "spec",
        "minDomains and tolerate contradict each other. To reach d domains with n domains lost a topic needs a "
        "replicationFactor of d + n or more.",
        accepted=[_durable(minDomains={"zone": 2}, tolerate={"zone": 1})],
        rejected=[_durable(minDomains={"zone": 2}, tolerate={"zone": 2})],
    ),
    _topic(
        "spec",
        "Kafka's internal topics cannot have deletionPolicy Delete.",
        accepted=[
            {"topicName": "__consumer_offsets"},
            {"topicName": "orders", "deletionPolicy": "Delete"},
            {"topicName": "__mine", "deletionPolicy": "Delete"},
        ],
        rejected=[
            {"topicName": "__consumer_offsets", "deletionPolicy": "Delete"},
            {"topicName": "__transaction_state", "deletionPolicy": "Delete"},
        ],
    ),
    _topic(
        "spec.topologyRef",
        "topologyRef cannot change, because a topic cannot move to another Kafka cluster. Make another KafkaTopic.",
        before={},
        accepted=[{"partitions": 7}],
        rejected=[{"topologyRef": {"name": "other"}}, {"topologyRef": {"namespace": "other"}}],
    ),
    _topic(
        "spec.topologyRef.name",
        f"A RackTopology's {_CONSISTS}",
        accepted=[{"topologyRef": {"name": name}} for name in _NAMES],
        rejected=[{"topologyRef": {"name": name}} for name in _NO_NAMES],
    ),
    _topic(
        "spec.topologyRef.namespace",
        "A namespace's name consists of lower-case letters, digits and inner hyphens.",
        accepted=[{"topologyRef": {"namespace": "kafka-1"}}],
        rejected=[{"topologyRef": {"namespace": name}} for name in _NO_NAMESPACES],
    ),
    _topic(
        "spec.topicName",
        "A Kafka topic name consists of letters, digits, dots, underscores and hyphens, and is neither . nor .. "
        "itself.",
        accepted=[{"topicName": name} for name in ("Orders", "a.b-c_D9", "...", "a" * 249)],
        rejected=[{"topicName": name} for name in (".", "..", "a b", "a/b", "é", "a\n", "a:b")],
    ),
    _topic(
        "spec.partitions",
        "partitions cannot shrink, because Kafka cannot remove partitions.",
        sentence="partitions cannot shrink from 6 to 5, because Kafka cannot remove partitions.",
        before={"partitions": 6},
        accepted=[{"partitions": 6}, {"partitions": 7}],
        rejected=[{"partitions": 5}],
    ),
    _topic(
        "spec.config",
        "min.insync.replicas must be a whole number of 1 or more.",
        accepted=[{"config": {_MIN_ISR: 1}}, {"config": {_MIN_ISR: "2"}}],
        rejected=[{"config": {_MIN_ISR: value}} for value in (0, -1, "0", "two", "", "1.5", " 2")],
    ),
    _topic(
        "spec.config",
        "The number of partitions and the replication factor are not topic configs. Use spec.partitions and "
        "spec.replicationFactor.",
        accepted=[{"config": {"retention.ms": -1}}],
        rejected=[{"config": {key: 3}} for key in ("partitions", "num.partitions", "replication.factor")],
    ),
    _topic(
        "spec.config",
        "Throttled replicas are set and cleared by the operator while it moves replicas. Use "
        "the RackTopology's spec.reassignment.throttle.",
        accepted=[{"config": {"max.message.bytes": 1}}],
        rejected=[
            {"config": {"leader.replication.throttled.replicas": "*"}},
            {"config": {"follower.replication.throttled.replicas": "0:1"}},
        ],
    ),
    _topic(
        "spec.placement",
        "An explicit assignment leaves nothing to place. Remove it, or remove placer, spread, brokers, leaders, seed, "
        "startIndex and shift.",
        accepted=[{"partitions": 1, **_placed(assignment=[[0, 1, 2]])}],
        rejected=[
            {"partitions": 1, **_placed(assignment=[[0, 1, 2]], **other)}
            for other in (
                {"placer": "MultiLevel"},
                {"spread": [{"level": "zone"}]},
                {"brokers": {"exclude": ["3"]}},
                {"leaders": ["/eu"]},
                {"seed": 1},
                {"startIndex": 0},
                {"shift": 0},
            )
        ],
    ),
    _topic(
        "spec.placement",
        "startIndex and shift are for the placers Simple and Striped. Use seed, or choose one of these.",
        accepted=[
            _placed(placer="Striped", startIndex=2, shift=1),
            _placed(placer="Simple", shift=0),
            _placed(placer="OurOwn", startIndex=0),
            _placed(startIndex=2),  # the default placer of the topology may accept these
        ],
        rejected=[_placed(placer="MultiLevel", startIndex=0), _placed(placer="Rings", shift=1)],
    ),
    _topic(
        "spec.placement",
        "The placers Simple, Striped and Rings ignore leaders. Remove leaders, or choose MultiLevel.",
        accepted=[
            _placed(placer="MultiLevel", leaders=["/eu"]),
            _placed(placer="OurOwn", leaders=["/eu"]),
            _placed(leaders=["/eu"]),
            _placed(placer="Simple", spread=[{"level": "zone", "maxSkew": 3}]),  # topics are judged by it
        ],
        rejected=[_placed(placer=placer, leaders=["/eu"]) for placer in ("Simple", "Striped", "Rings")],
    ),
    _topic(
        "spec.placement.spread",
        "Each level can be listed only once in spread.",
        accepted=[_placed(spread=[{"level": "region"}, {"level": "zone", "maxSkew": 2}])],
        rejected=[_placed(spread=[{"level": "zone"}, {"level": "zone", "maxSkew": 2}])],
    ),
    _topic(
        "spec.placement.brokers",
        "The same entry is in include and in exclude.",
        accepted=[_placed(brokers={"include": ["/eu"], "exclude": ["/eu/eu-1a", "7"]})],
        rejected=[_placed(brokers={"include": ["/eu", "7"], "exclude": ["7"]})],
    ),
    _topic(
        "spec.placement.brokers.include[]",
        f"An entry of include {_PATTERN}",
        accepted=[_placed(brokers={"include": _GOOD_PATTERNS})],
        rejected=[_placed(brokers={"include": [entry]}) for entry in _BAD_PATTERNS],
    ),
    _topic(
        "spec.placement.brokers.exclude[]",
        f"An entry of exclude {_PATTERN}",
        accepted=[_placed(brokers={"exclude": _GOOD_PATTERNS})],
        rejected=[_placed(brokers={"exclude": [entry]}) for entry in _BAD_PATTERNS],
    ),
    _topic(
        "spec.placement.leaders[]",
        f"An entry of leaders {_PATH}",
        accepted=[_placed(leaders=_GOOD_PATHS)],
        rejected=[_placed(leaders=[entry]) for entry in _BAD_PATHS],
    ),
    _topic(
        "spec.placement.assignment[]",
        "A row of the assignment names a broker twice.",
        accepted=[{"partitions": 2, **_placed(assignment=[[0, 1, 2], [2, 1, 0]])}],
        rejected=[{"partitions": 2, **_placed(assignment=[[0, 1, 2], [2, 1, 2]])}],
    ),
    _topic(
        "spec.reassignment.approvedPlan",
        f"{_HASH}.",
        accepted=[{"reassignment": {"approvedPlan": one}} for one in _HASHES],
        rejected=[{"reassignment": {"approvedPlan": one}} for one in _NO_HASHES],
    ),
]


def _brokers(**brokers: Any) -> Patch:
    return {"brokers": brokers}


def _properties(*keys: str) -> list[Patch]:
    return [{"kafka": {"properties": {key: "x"}}} for key in keys]


def _selector_cases(path: str, patch: Any) -> list[Case]:
    def with_expression(**expression: Any) -> Patch:
        selected: Patch = patch({"matchExpressions": [{"key": "role", **expression}]})
        return selected

    return [
        _topology(
            f"{path}.matchExpressions[]",
            "The operators In and NotIn need values.",
            accepted=[with_expression(operator="In", values=["broker"]), with_expression(operator="Exists")],
            rejected=[with_expression(operator="In"), with_expression(operator="NotIn", values=[])],
        ),
        _topology(
            f"{path}.matchExpressions[]",
            "The operators Exists and DoesNotExist take no values.",
            accepted=[with_expression(operator="DoesNotExist", values=[]), with_expression(operator="Exists")],
            rejected=[with_expression(operator="Exists", values=["broker"])],
        ),
    ]


def _sub_path(path: str) -> Patch:
    return {"compliance": {"historyVolume": {"claimName": "scans", "subPath": path}}}


def _sasl(**secret: str) -> Patch:
    return {"kafka": {"sasl": {"mechanism": "PLAIN", "secretRef": {"name": "user", **secret}}}}


def _tokens(**oauth: object) -> Patch:
    endpoint = {"tokenEndpoint": "https://login.example.com/oauth2/token"}
    return {
        "kafka": {"sasl": {"mechanism": "OAUTHBEARER", "secretRef": {"name": "me"}, "oauth": {**endpoint, **oauth}}}
    }


def _msk(**region: str) -> Patch:
    sasl = {"mechanism": "AWS_MSK_IAM", "secretRef": {"name": "aws"}, "mskIam": {"region": "eu-west-1", **region}}
    return {"kafka": {"tls": {}, "sasl": sasl}}


def _token_ca(**secret: str) -> Patch:
    return _tokens(caSecretRef={"name": "ca", **secret})


def _ca(**secret: str) -> Patch:
    return {"kafka": {"tls": {"caSecretRef": {"name": "ca", **secret}}}}


def _certificate(**secret: str) -> Patch:
    return {"kafka": {"tls": {"clientCertSecretRef": {"name": "client", **secret}}}}


_SECRETS = {
    "tls.caSecretRef": (_ca, ["key"]),
    "tls.clientCertSecretRef": (_certificate, ["certKey", "keyKey"]),
    "sasl.secretRef": (_sasl, ["usernameKey", "passwordKey"]),
    "sasl.oauth.caSecretRef": (_token_ca, ["key"]),
}
_SECRET_CASES = [
    case
    for path, (patch, keys) in _SECRETS.items()
    for case in (
        _topology(
            f"spec.kafka.{path}.name",
            f"A Secret's {_CONSISTS}",
            accepted=[patch(name=name) for name in _NAMES],
            rejected=[patch(name=name) for name in _NO_NAMES],
        ),
        *(
            _topology(
                f"spec.kafka.{path}.{key}",
                "A key of a Secret consists of letters, digits, dots, hyphens and underscores.",
                accepted=[patch(**{key: name}) for name in _SECRET_KEYS],
                rejected=[patch(**{key: name}) for name in _NO_SECRET_KEYS],
            )
            for key in keys
        ),
    )
]
_VOLUME = {"historyVolume": {"claimName": "scans"}}
_NO_LABELS = [{"name": "region"}, {"name": "zone"}]
_LABELS = {"region": "topology.kubernetes.io/region", "zone": "topology.kubernetes.io/zone"}

TOPOLOGY_CASES = [
    *_SECRET_CASES,
    _topology(
        "spec",
        "With rackSource Nodes every level needs the nodeLabel that it is read from.",
        accepted=[{"rackSource": "Broker", "levels": _NO_LABELS}],
        rejected=[{"levels": _NO_LABELS}, {"rackSource": "Nodes", "levels": [{"name": "zone"}]}],
    ),
    _topology(
        "spec",
        "With rackSource Nodes brokers must say which pods are the brokers.",
        accepted=[{"rackSource": "Broker", "brokers": None}],
        rejected=[{"brokers": None}, {"rackSource": "Nodes", "brokers": None}],
    ),
    _topology(
        "spec",
        "With rackSource Broker there is no other rack that a restart would give to a broker. Leave restart out.",
        accepted=[
            {"brokers": {"restart": "OnDrift"}},
            {"brokers": {"restart": "Never"}},
            {"rackSource": "Broker"},
            {"rackSource": "Broker", "brokers": None},
        ],
        rejected=[{"rackSource": "Broker", "brokers": {"restart": "OnDrift"}}],
    ),
    _topology(
        "spec",
        "A rack path in rackAliases has more steps than there are levels.",
        accepted=[{"rackAliases": {"use1-az1": "/us/az1", "use1-az2": "us/az2", "old": "/us"}}],
        rejected=[{"rackAliases": {"use1-az1": "/us/az1/r1"}}],
    ),
    _topology(
        "spec",
        "A rack path in drainRacks has more steps than there are levels.",
        accepted=[{"drainRacks": ["/eu", "eu/eu-1a", "/eu/eu-1b"]}],
        rejected=[{"drainRacks": ["/eu/eu-1a/r1"]}],
    ),
    _topology(
        "spec",
        "A key of defaults.durability.minDomains is not the name of a level.",
        accepted=[{"defaults": _durable(minDomains={"zone": 2})}],
        rejected=[{"defaults": _durable(minDomains={"zones": 2})}],
    ),
    _topology(
        "spec",
        "A key of defaults.durability.tolerate is not the name of a level.",
        accepted=[{"defaults": _durable(tolerate={"region": 1, "zone": 1})}],
        rejected=[{"defaults": _durable(tolerate={"zone": 1, "rack": 1})}],
    ),
    _topology(
        "spec.kafka.bootstrapServers",
        "bootstrapServers is a comma-separated list of host:port, such as kafka-0.kafka:9092,kafka-1.kafka:9092.",
        accepted=[
            {"kafka": {"bootstrapServers": servers}}
            for servers in ("kafka:9092", "10.0.0.1:9092", "[::1]:9092", "a.b.c:1, d_e:2 ,f:65535", "kafka.local.:9092")
        ],
        rejected=[
            {"kafka": {"bootstrapServers": servers}}
            for servers in (
                "kafka",
                "kafka:",
                ":9092",
                "SSL://kafka:9092",
                "a:1,,b:2",
                "a:1 b:2",
                "a:1,",
                "a:123456",
                " ",
            )
        ],
    ),
    _topology(
        "spec.kafka.clusterId",
        "clusterId has no spaces.",
        accepted=[{"kafka": {"clusterId": "4L6g3nShT-eMCtK--X86sw"}}, {"kafka": {"clusterId": "redpanda.1f0"}}],
        rejected=[{"kafka": {"clusterId": "4L6g3nShT-eMCtK--X86sw "}}, {"kafka": {"clusterId": "my cluster"}}],
    ),
    _topology(
        "spec.kafka.tls.clientCertSecretRef",
        "certKey and keyKey must be different keys of the Secret.",
        accepted=[{"kafka": {"tls": {"clientCertSecretRef": {"name": "client"}}}}],
        rejected=[{"kafka": {"tls": {"clientCertSecretRef": {"name": "client", "certKey": "tls.key"}}}}],
    ),
    _topology(
        "spec.kafka.sasl.secretRef",
        "usernameKey and passwordKey must be different keys of the Secret.",
        accepted=[{"kafka": {"sasl": {"mechanism": "PLAIN", "secretRef": {"name": "user"}}}}],
        rejected=[
            {"kafka": {"sasl": {"mechanism": "PLAIN", "secretRef": {"name": "user", "usernameKey": "password"}}}}
        ],
    ),
    _topology(
        "spec.kafka.sasl",
        "mechanism OAUTHBEARER needs oauth, and no other mechanism takes it.",
        accepted=[_tokens(), _sasl()],
        rejected=[
            {"kafka": {"sasl": {"mechanism": "OAUTHBEARER", "secretRef": {"name": "me"}}}},
            {"kafka": {"sasl": {**_tokens()["kafka"]["sasl"], "mechanism": "PLAIN"}}},
        ],
    ),
    _topology(
        "spec.kafka.sasl",
        "mechanism AWS_MSK_IAM needs mskIam, and no other mechanism takes it.",
        accepted=[_msk(), _sasl()],
        rejected=[
            {"kafka": {"tls": {}, "sasl": {"mechanism": "AWS_MSK_IAM", "secretRef": {"name": "aws"}}}},
            {"kafka": {"sasl": {**_msk()["kafka"]["sasl"], "mechanism": "PLAIN"}}},
        ],
    ),
    _topology(
        "spec.kafka",
        "mechanism AWS_MSK_IAM needs tls, so that the token is encrypted.",
        accepted=[_msk()],
        rejected=[{"kafka": {"sasl": _msk()["kafka"]["sasl"]}}],
    ),
    _topology(
        "spec.kafka.sasl.mskIam.region",
        "region is a region of AWS, such as eu-west-1.",
        accepted=[_msk(region=region) for region in ("eu-west-1", "us-gov-east-1", "ap-southeast-12")],
        rejected=[
            _msk(region=region)
            for region in ("eu-west-1\n", "eu west 1", "EU-WEST-1", "-eu-1", "eu-west", "a.b/1", "a?b=1", "1-1", "é-1")
        ],
    ),
    _topology(
        "spec.kafka.sasl.oauth",
        "clientIdKey and clientSecretKey must be different keys of the Secret.",
        accepted=[_tokens(clientIdKey="id", clientSecretKey="secret")],
        rejected=[_tokens(clientIdKey="clientSecret")],
    ),
    *(
        _topology(
            f"spec.kafka.sasl.oauth.{key}",
            "A key of a Secret consists of letters, digits, dots, hyphens and underscores.",
            accepted=[_tokens(**{key: name}) for name in _SECRET_KEYS],
            rejected=[_tokens(**{key: name}) for name in _NO_SECRET_KEYS],
        )
        for key in ("clientIdKey", "clientSecretKey")
    ),
    _topology(
        "spec.kafka.sasl.oauth.tokenEndpoint",
        "tokenEndpoint is an https:// URL, without a user name, a password and a fragment.",
        accepted=[
            _tokens(tokenEndpoint=f"https://{rest}")
            for rest in ("login.example.com", "10.0.0.1:8443/token", "[2001:db8::1]/token", "a.b/c?p=sign~in&q=1")
        ],
        rejected=[
            _tokens(tokenEndpoint=url)
            for url in (
                "http://login.example.com/token",
                "http://127.0.0.1:8080/token",
                "https://me:secret@login.example.com/token",
                "https://login.example.com/token#a",
                "https://login.example.com/to ken",
                "https://login.example.com/\ntoken",
                "https:///token",
                "https://login.example.com:123456/",
                "file:///etc/passwd",
                "login.example.com",
            )
        ],
    ),
    _topology(
        "spec.kafka.sasl.oauth.tokenEndpoint",
        "The host name of tokenEndpoint has no empty part, and none of more than 63 characters.",
        accepted=[
            _tokens(tokenEndpoint=f"https://{rest}")
            for rest in (
                "a",
                f"{'a' * 63}.{'b' * 63}",
                "a.b.:443/",
                "[::ffff:10.0.0.1]/",
                f"a/b..c/{'d' * 64}",
                "a?b..c",
            )
        ],
        rejected=[
            _tokens(tokenEndpoint=f"https://{host}/token")
            for host in (".", ".a", "a..b", "a..:443", "a" * 64, f"a.{'b' * 64}.c", f"{'a' * 64}:443")
        ],
    ),
    _topology(
        "spec.kafka.sasl.oauth.scope",
        "scope is words with one space between them, of printable ASCII without quotes and backslashes.",
        accepted=[_tokens(scope=scope) for scope in ("kafka", "api://kafka/.default openid")],
        rejected=[_tokens(scope=scope) for scope in (" kafka", "a  b", 'a"b', "a\\b", "a\nb", "ä")],
    ),
    _topology(
        "spec.kafka.properties",
        "A key of properties is not among the client properties that may be set. Brokers are named in "
        "spec.kafka.bootstrapServers, encryption is set in spec.kafka.tls and authentication in spec.kafka.sasl.",
        accepted=_properties(*CLIENT_PROPERTIES),
        rejected=_properties(
            "internal.termination.signal",
            "default.topic.config",
            "bootstrap.servers",
            "metadata.broker.list",
            "security.protocol",
            "ssl.ca.location",
            "ssl.key.password",
            "ssl.engine.location",
            "ssl.providers",
            "enable.ssl.certificate.verification",
            "https.ca.location",
            "sasl.password",
            "sasl.mechanism",
            "sasl.kerberos.kinit.cmd",
            "enable.sasl.oauthbearer.unsecure.jwt",
            "plugin.library.paths",
            "error_cb",
            "interceptors",
            "opaque",
            "statistics.interval.ms",
            "receive.message.max.bytes",
            "log_level",
            "client.id ",
            "Client.id",
            "../client.id",
        ),
    ),
    _topology(
        "spec.kafka.properties",
        "A value of properties is one line without control characters.",
        accepted=[{"kafka": {"properties": {"client.id": "ops (Zürich) #7"}}}],
        rejected=[{"kafka": {"properties": {"client.id": value}}} for value in ("a\n", "a\nb", "a\0b", "\x1b[2J")],
    ),
    _topology(
        "spec.levels",
        "Two levels have the same name.",
        accepted=[{"levels": [{"name": name, "nodeLabel": name} for name in ("zone", "rack")]}],
        rejected=[{"levels": [{"name": "zone", "nodeLabel": label} for label in ("a", "b")]}],
    ),
    _topology(
        "spec.levels",
        "Two levels are read from the same nodeLabel.",
        accepted=[{"rackSource": "Broker", "levels": _NO_LABELS}],
        rejected=[{"levels": [{"name": name, "nodeLabel": "zone"} for name in ("zone", "rack")]}],
    ),
    _topology(
        "spec.levels[].name",
        "A level's name consists of lower-case letters, digits and inner hyphens.",
        accepted=[{"levels": [{"name": name, "nodeLabel": "a"}]} for name in ("dc", "power-feed", "r2", "9")],
        rejected=[{"levels": [{"name": name, "nodeLabel": "a"}]} for name in ("Zone", "-a", "a-", "a b", "a/b", "a.b")],
    ),
    _topology(
        "spec.levels[].name",
        "The level broker is always there, as the last one. Choose another name.",
        accepted=[{"levels": [{"name": name, "nodeLabel": "a"}]} for name in ("brokers", "broker-1")],
        rejected=[{"levels": [{"name": name, "nodeLabel": name} for name in ("zone", "broker")]}],
    ),
    _topology(
        "spec.levels[].nodeLabel",
        "nodeLabel is a label's key, such as topology.kubernetes.io/zone.",
        accepted=[{"levels": [{"name": "a", "nodeLabel": label}]} for label in (*_LABELS.values(), "rack", "Rack_1.a")],
        rejected=[
            {"levels": [{"name": "a", "nodeLabel": label}]} for label in ("a b", "/zone", "a/b/c", "zone=", "-a")
        ],
    ),
    _topology(
        "spec.brokers.namespace",
        "A namespace's name consists of lower-case letters, digits and inner hyphens.",
        accepted=[_brokers(namespace="kafka-1")],
        rejected=[_brokers(namespace=name) for name in _NO_NAMESPACES],
    ),
    _topology(
        "spec.brokers.podSelector",
        "An empty podSelector would take every pod for a broker.",
        accepted=[
            _brokers(podSelector={"matchLabels": None, "matchExpressions": [{"key": "kafka", "operator": "Exists"}]})
        ],
        rejected=[
            _brokers(podSelector={"matchLabels": None}),
            _brokers(podSelector={"matchLabels": {"app": None}, "matchExpressions": []}),
        ],
    ),
    *_selector_cases("spec.brokers.podSelector", lambda selector: _brokers(podSelector=selector)),
    _topology(
        "spec.brokers.brokerId",
        "With from Label or Annotation brokerId needs the key to read.",
        accepted=[
            _brokers(brokerId={"from": "Label", "key": "strimzi.io/broker-id"}),
            _brokers(brokerId={"offset": 100}),
        ],
        rejected=[_brokers(brokerId={"from": "Label"}), _brokers(brokerId={"from": "Annotation", "offset": 1})],
    ),
    _topology(
        "spec.brokers.brokerId",
        "With from NameSuffix brokerId reads no key. Remove key, or set from to Label or Annotation.",
        accepted=[_brokers(brokerId={"from": "NameSuffix"}), _brokers(brokerId={"from": "Annotation", "key": "id"})],
        rejected=[_brokers(brokerId={"from": "NameSuffix", "key": "id"}), _brokers(brokerId={"key": "id"})],
    ),
    _topology(
        "spec.rackAliases{}",
        "A value of rackAliases is a rack path such as /us-east-1/use1-az1, without spaces, wildcards or empty steps.",
        accepted=[{"rackAliases": {str(index): path for index, path in enumerate(_GOOD_PATHS)}}],
        rejected=[{"rackAliases": {"use1-az1": path}} for path in _BAD_PATHS],
    ),
    _topology(
        "spec.drainRacks[]",
        f"An entry of drainRacks {_PATH}",
        accepted=[{"drainRacks": _GOOD_PATHS}],
        rejected=[{"drainRacks": [path]} for path in _BAD_PATHS],
    ),
    _topology(
        "spec.allowedNamespaces",
        "With from Selector allowedNamespaces needs the selector.",
        accepted=[{"allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}}],
        rejected=[{"allowedNamespaces": {"from": "Selector"}}],
    ),
    _topology(
        "spec.allowedNamespaces",
        "allowedNamespaces has a selector that from does not use. Set from to Selector, or remove it.",
        accepted=[{"allowedNamespaces": {"from": "All"}}, {"allowedNamespaces": {}}],
        rejected=[
            {"allowedNamespaces": {"selector": {"matchLabels": {"team": "shop"}}}},
            {"allowedNamespaces": {"from": "All", "selector": {"matchLabels": {"team": "shop"}}}},
        ],
    ),
    _topology(
        "spec.allowedNamespaces",
        "allowedNamespaces has topicPrefixes, which bind other namespaces only, and from is Same. Widen from, or "
        "remove them.",
        accepted=[{"allowedNamespaces": {"from": "All", "topicPrefixes": ["$(namespace)."]}}],
        rejected=[{"allowedNamespaces": {"topicPrefixes": ["$(namespace)."]}}],
    ),
    _topology(
        "spec.allowedNamespaces.topicPrefixes[]",
        "An entry of topicPrefixes consists of the characters of a topic name, and may hold $(namespace) once, "
        "followed by a dot or an underscore, so that namespace shop does not get the names of namespace shop-2.",
        accepted=[
            {"allowedNamespaces": {"from": "All", "topicPrefixes": [prefix]}}
            for prefix in ("$(namespace).", "x-$(namespace)_y-", "orders", "__internal", "a.b_c-")
        ],
        rejected=[
            {"allowedNamespaces": {"from": "All", "topicPrefixes": [prefix]}}
            for prefix in ("$(namespace)", "$(namespace)-", "$(name).", "a*", "a b", "$(namespace).$(namespace).", "ü")
        ],
    ),
    _topology(
        "spec.allowedNamespaces.quota",
        "A topic has at least one partition, and a partition at least one replica, so quota needs topics <= partitions "
        "<= replicas (500, 2000 and 6000 where they are not set).",
        accepted=[
            {"allowedNamespaces": {"from": "All", "quota": quota}}
            for quota in ({}, {"topics": 2_000}, {"topics": 0, "partitions": 0, "replicas": 0}, {"replicas": 2**31 - 1})
        ],
        rejected=[
            {"allowedNamespaces": {"from": "All", "quota": quota}}
            for quota in ({"topics": 2_001}, {"partitions": 499}, {"partitions": 6_001}, {"replicas": 1_999})
        ],
    ),
    _topology(
        "spec.sharedWith[]",
        "An entry of sharedWith is a namespace's name, which consists of lower-case letters, digits and inner hyphens.",
        accepted=[{"sharedWith": ["bank", "team-2"]}],
        rejected=[{"sharedWith": ["Bank"]}, {"sharedWith": ["bank/prod"]}, {"sharedWith": ["-a"]}],
    ),
    _topology(
        "spec",
        "With unmanagedTopics Repair topics of the RackTopologies in sharedWith would be taken for ones without a "
        "KafkaTopic. Leave one of the two out.",
        accepted=[
            {"unmanagedTopics": "Repair"},
            {"unmanagedTopics": "Repair", "sharedWith": [], "internalTopics": ["__consumer_offsets"]},
            {"unmanagedTopics": "Report", "sharedWith": ["bank"]},
        ],
        rejected=[{"unmanagedTopics": "Repair", "sharedWith": ["bank"]}],
    ),
    _topology(
        "spec.internalTopics[]",
        "An entry of internalTopics is the full name of a topic.",
        accepted=[{"internalTopics": ["__consumer_offsets"]}, {"internalTopics": []}],
        rejected=[{"internalTopics": ["__*"]}, {"internalTopics": ["a/b"]}],
    ),
    *_selector_cases(
        "spec.allowedNamespaces.selector",
        lambda selector: {"allowedNamespaces": {"from": "Selector", "selector": selector}},
    ),
    _topology(
        "spec.compliance",
        "timeZone is for the schedule, and there is none.",
        accepted=[{"compliance": {"schedule": "@daily", "timeZone": "Europe/Paris"}}],
        rejected=[{"compliance": {"timeZone": "Europe/Paris"}}],
    ),
    _topology(
        "spec.compliance.schedule",
        'schedule is a cron expression of five fields such as "0 3 * * *", or a word such as @daily.',
        accepted=[{"compliance": {"schedule": cron}} for cron in ("0 3 * * *", "*/15 0-6 1,15 JAN-MAR mon", "@hourly")],
        rejected=[
            {"compliance": {"schedule": cron}} for cron in ("0 3 * *", "0 0 3 * * *", "TZ=UTC 0 3 * * *", "@often")
        ],
    ),
    _topology(
        "spec.compliance.historyLocation",
        "historyLocation is an absolute path or a URI such as s3a://bucket/rackspan.",
        accepted=[
            {"compliance": {"historyLocation": "s3a://bucket/rackspan"}},
            {"compliance": {"historyLocation": "/var/lib/rackspan", **_VOLUME}},
        ],
        rejected=[
            *({"compliance": {"historyLocation": place}} for place in ("rackspan", "../x", "s3a:bucket")),
            {"compliance": {"historyLocation": "/a b", **_VOLUME}},
        ],
    ),
    _topology(
        "spec.compliance.historyLocation",
        "historyLocation has no user, password, query or fragment, and no %, $ or backslash. Everybody who may read "
        "reports sees it.",
        accepted=[
            {"compliance": {"historyLocation": place}}
            for place in ("gs://b/x", "abfss://audit@acme.dfs.core.windows.net/x", "hdfs://namenode:8020/x@y")
        ],
        rejected=[
            {"compliance": {"historyLocation": place}}
            for place in (
                "gs://b/x?endpoint_override=evil.example&scheme=http",
                "s3a://key:secret@b/x",
                "s3a://audit@b/x",
                "abfss://key:secret@acme.dfs.core.windows.net/x",
                "abfss://audit@acme.dfs.core.windows.net:443/x",
                "s3a://b/x#y",
                "s3a://b/%2e%2e/x",
                "s3a://b/$(POD_IP)",
                "s3a://b\\..\\x",
            )
        ],
    ),
    _topology(
        "spec.compliance.historyLocation",
        "The path of historyLocation has no empty step, . or ..",
        accepted=[{"compliance": {"historyLocation": place}} for place in ("file:///x", "s3a://b/x/..y/.z/")],
        rejected=[
            {"compliance": {"historyLocation": place}}
            for place in ("s3a://b/../c", "s3a://b//x", "s3a://b/x/..", "s3a://b/./x")
        ],
    ),
    _topology(
        "spec.compliance",
        "startingDeadlineSeconds is for the schedule, and there is none.",
        accepted=[{"compliance": {"schedule": "@daily", "startingDeadlineSeconds": 600}}],
        rejected=[{"compliance": {"startingDeadlineSeconds": 600}}],
    ),
    _topology(
        "spec.compliance",
        "With a historyVolume historyLocation is the absolute path at which it is mounted.",
        accepted=[{"compliance": {"historyLocation": "/scans", **_VOLUME}}, {"compliance": _VOLUME}],
        rejected=[{"compliance": {"historyLocation": "s3a://bucket/rackspan", **_VOLUME}}],
    ),
    _topology(
        "spec.compliance",
        "A historyLocation that is a path lies on a historyVolume, or it would be lost with the pod. Add one, or give "
        "a URI.",
        accepted=[{"compliance": {"historyLocation": "/scans", **_VOLUME}}],
        rejected=[{"compliance": {"historyLocation": "/scans"}}],
    ),
    _topology(
        "spec.compliance",
        "retentionDays is for the history, and there is none. Add historyVolume or historyLocation.",
        accepted=[
            {"compliance": {"retentionDays": 30, **_VOLUME}},
            {"compliance": {"retentionDays": 30, "historyLocation": "s3a://bucket/rackspan"}},
        ],
        rejected=[{"compliance": {"retentionDays": 30}}],
    ),
    _topology(
        "spec.compliance.producers[].rack",
        "rack has a character that is not printed.",
        accepted=[{"compliance": {"producers": [{"rack": "/eu/eu-1a"}, {"rack": "flat id", "count": 3}]}}],
        rejected=[{"compliance": {"producers": [{"rack": "/eu/\n"}]}}],
    ),
    _topology(
        "spec.compliance",
        "The engines Auto and Job have no executors. Choose SparkOnKubernetes or SparkApplication.",
        accepted=[
            {"compliance": {"engine": engine, "executors": {"instances": 3}}}
            for engine in ("SparkOnKubernetes", "SparkApplication")
        ],
        rejected=[
            {"compliance": {"executors": {"instances": 3}}},
            {"compliance": {"engine": "Auto", "executors": {}}},
            {"compliance": {"engine": "Job", "executors": {}}},
        ],
    ),
    _topology(
        "spec.compliance.image",
        "image has no spaces.",
        accepted=[{"compliance": {"image": "registry.example.com:5000/rackspan-scan@sha256:0123"}}],
        rejected=[{"compliance": {"image": image}} for image in ("rackspan scan:1", " rackspan-scan", "a\n")],
    ),
    _topology(
        "spec.compliance.sparkConf",
        "A key of sparkConf begins with spark.",
        accepted=[{"compliance": {"sparkConf": {"spark.sql.shuffle.partitions": "8"}}}],
        rejected=[{"compliance": {"sparkConf": {"sql.shuffle.partitions": "8"}}}],
    ),
    _topology(
        "spec.compliance.sparkConf",
        "A key of sparkConf is one that the operator sets. Use engine, image and executors.",
        accepted=[{"compliance": {"sparkConf": {"spark.executor.memoryOverhead": "1g"}}}],
        rejected=[
            {"compliance": {"sparkConf": {key: "x"}}}
            for key in ("spark.master", "spark.kubernetes.container.image", "spark.executor.instances")
        ],
    ),
    _topology(
        "spec.reassignment.approvedPlan",
        f"{_HASH}, or several hashes with commas between them.",
        accepted=[{"reassignment": {"approvedPlan": one}} for one in (*_HASHES, ",".join(_HASHES * 50))],
        rejected=[
            {"reassignment": {"approvedPlan": one}}
            for one in (*_NO_HASHES, f"{_HASHES[0]},", f"{_HASHES[0]},{'f' * 16}")
        ],
    ),
    _topology(
        "spec.reassignment.windows[].schedule",
        'schedule is a cron expression of five fields such as "0 3 * * *", or a word such as @daily.',
        accepted=[_window(schedule=cron) for cron in ("0 22 * * SAT", "@daily")],
        rejected=[_window(schedule=cron) for cron in ("0 22 * *", "@often", "TZ=UTC 0 3 * * *")],
    ),
    _topology(
        "spec.reassignment.windows[].duration",
        "duration is like 4h, 90m or 1h30m.",
        accepted=[_window(duration=lasts) for lasts in ("4h", "90m", "1h30m", "100h")],
        rejected=[_window(duration=lasts) for lasts in ("0h", "44", "hm", "30m1h", "4h\n", "-4h", "1d", "0h0m")],
    ),
    _topology(
        "spec.reassignment.windows[].timeZone",
        "timeZone is a name such as Europe/Paris.",
        accepted=[_window(timeZone=zone) for zone in ("UTC", "Etc/GMT+3")],
        rejected=[_window(timeZone=zone) for zone in ("../UTC", "/etc/passwd", "a b")],
    ),
    _topology(
        "spec.compliance.timeZone",
        "timeZone is a name such as Europe/Paris.",
        accepted=[{"compliance": {"schedule": "@daily", "timeZone": zone}} for zone in ("UTC", "Etc/GMT+3", "a/B_c/d")],
        rejected=[
            {"compliance": {"schedule": "@daily", "timeZone": zone}}
            for zone in ("../UTC", "/etc/passwd", "Europe/../UTC", "a\0", "a\n", "a//b", "a b")
        ],
    ),
    _topology(
        "spec.compliance.historyVolume.claimName",
        f"A PersistentVolumeClaim's {_CONSISTS}",
        accepted=[{"compliance": {"historyVolume": {"claimName": name}}} for name in _NAMES],
        rejected=[{"compliance": {"historyVolume": {"claimName": name}}} for name in _NO_NAMES],
    ),
    _topology(
        "spec.compliance.historyVolume.subPath",
        "subPath is a relative path without .. in it.",
        accepted=[
            {"compliance": {"historyVolume": {"claimName": "scans", "subPath": path}}} for path in ("a", "a/b..c")
        ],
        rejected=[
            {"compliance": {"historyVolume": {"claimName": "scans", "subPath": path}}}
            for path in ("/a", "..", "a/../b")
        ],
    ),
]

REPORT_CASES = [
    Case(
        Rule("ComplianceReport", "spec.topologyRef", "topologyRef cannot change. Make another ComplianceReport."),
        accepted=({"metadata": {"labels": {"team": "shop"}}},),
        rejected=({"spec": {"topologyRef": {"name": "other"}}},),
        before={},
    ),
    Case(
        Rule("ComplianceReport", "spec.topologyRef.name", f"A RackTopology's {_CONSISTS}"),
        accepted=tuple({"spec": {"topologyRef": {"name": name}}} for name in _NAMES),
        rejected=tuple({"spec": {"topologyRef": {"name": name}}} for name in _NO_NAMES),
    ),
    Case(
        Rule(
            "ComplianceReport",
            "spec.topologyRef.namespace",
            "A namespace's name consists of lower-case letters, digits and inner hyphens.",
        ),
        accepted=({"spec": {"topologyRef": {"namespace": "kafka-1"}}},),
        rejected=tuple({"spec": {"topologyRef": {"namespace": name}}} for name in _NO_NAMESPACES),
    ),
]


def _reassignment(path: str, message: str, *, accepted: list[Patch], rejected: list[Patch], changing: bool) -> Case:
    """Return a case of a Reassignment. If `changing`, the patches change an existing one."""
    return Case(
        Rule("Reassignment", path, message),
        accepted=tuple({"spec": patch} for patch in accepted),
        rejected=tuple({"spec": patch} for patch in rejected),
        before={} if changing else None,
    )


_ONE_THROTTLE = "throttle is a fixed rate, and adaptiveThrottle one that adapts itself. Set one of the two."
_FLOOR = "floor is above ceiling. It is the least that the throttle may be."
_BOUNDS: list[Patch] = [{}, {"floor": 5, "ceiling": 5}, {"floor": 200_000_000}, {"ceiling": 5_000_000}]
_NO_BOUNDS: list[Patch] = [{"floor": 6, "ceiling": 5}, {"floor": 200_000_001}, {"ceiling": 4_999_999}]
_TWO_THROTTLES: Patch = {"throttle": 5, "adaptiveThrottle": {}}


TOPOLOGY_CASES += [
    _topology(
        "spec.reassignment",
        _ONE_THROTTLE,
        accepted=[{"reassignment": {"throttle": 5}}, {"reassignment": {"adaptiveThrottle": {}}}],
        rejected=[{"reassignment": _TWO_THROTTLES}],
    ),
    _topology(
        "spec.reassignment.adaptiveThrottle",
        _FLOOR,
        accepted=[{"reassignment": {"adaptiveThrottle": one}} for one in _BOUNDS],
        rejected=[{"reassignment": {"adaptiveThrottle": one}} for one in _NO_BOUNDS],
    ),
]

_ADJUSTED: Patch = {"throttle": 1_000_000, "maxConcurrentMoves": 1, "maxConcurrentMovesPerBroker": 1, "paused": True}
_ANOTHER = "Cancel this Reassignment and approve another plan."

REASSIGNMENT_CASES = [
    _reassignment(
        "spec.topologyRef",
        "topologyRef cannot change. Cancel this Reassignment and approve a plan of the other RackTopology.",
        accepted=[_ADJUSTED],
        rejected=[{"topologyRef": {"name": "other"}}],
        changing=True,
    ),
    _reassignment(
        "spec.topologyRef.name",
        f"A RackTopology's {_CONSISTS}",
        accepted=[{"topologyRef": {"name": name}} for name in _NAMES],
        rejected=[{"topologyRef": {"name": name}} for name in _NO_NAMES],
        changing=False,
    ),
    _reassignment(
        "spec.planHash",
        "planHash consists of digits and the letters a to f, as rackspan plan prints it.",
        accepted=[{"planHash": "00112233"}],
        rejected=[{"planHash": text} for text in ("0123456789ABCDEF", "plan-of-today", "01234567\n")],
        changing=False,
    ),
    _reassignment(
        "spec.planHash",
        f"planHash cannot change. {_ANOTHER}",
        accepted=[_ADJUSTED],
        rejected=[{"planHash": "fedcba9876543210"}],
        changing=True,
    ),
    Case(
        Rule("Reassignment", "spec.part", f"part cannot change. {_ANOTHER}"),
        accepted=({"spec": _ADJUSTED},),
        rejected=({"spec": {"part": 2}},),
        before={"spec": {"parts": 3}},
    ),
    _reassignment(
        "spec.parts", f"parts cannot change. {_ANOTHER}", accepted=[_ADJUSTED], rejected=[{"parts": 2}], changing=True
    ),
    _reassignment(
        "spec.plan", f"plan cannot change. {_ANOTHER}", accepted=[_ADJUSTED], rejected=[{"plan": "eJw="}], changing=True
    ),
    _reassignment(
        "spec.approvedBy",
        "approvedBy cannot change. It says who approved this plan.",
        accepted=[_ADJUSTED],
        rejected=[{"approvedBy": "me"}],
        changing=True,
    ),
    Case(
        Rule(
            "Reassignment",
            "spec.cancelled",
            "A Reassignment that was cancelled cannot go on. Approve the plan of now.",
        ),
        accepted=({"spec": {"cancelled": True}}, {"spec": {"throttle": 5}}),
        rejected=({"spec": {"cancelled": False}}, {"spec": {"cancelled": None}}),
        before={"spec": {"cancelled": True}},
    ),
    _reassignment(
        "spec",
        _ONE_THROTTLE,
        accepted=[{"throttle": 5}, {"adaptiveThrottle": {}}, {"throttle": 5, "adaptiveThrottle": None}],
        rejected=[_TWO_THROTTLES],
        changing=True,
    ),
    _reassignment(
        "spec.adaptiveThrottle",
        _FLOOR,
        accepted=[{"adaptiveThrottle": one} for one in _BOUNDS],
        rejected=[{"adaptiveThrottle": one} for one in _NO_BOUNDS],
        changing=True,
    ),
    _reassignment(
        "spec",
        "part is the number of one of the parts, so it is at most parts.",
        accepted=[{"part": 3, "parts": 3}],
        rejected=[{"part": 2}, {"part": 4, "parts": 3}],
        changing=False,
    ),
]

CASES = [*TOPIC_CASES, *TOPOLOGY_CASES, *REPORT_CASES, *REASSIGNMENT_CASES]
