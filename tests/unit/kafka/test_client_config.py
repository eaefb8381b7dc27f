"""Which properties a RackTopology can set for librdkafka, which runs in the process of the operator."""

import re
import subprocess
import sys

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from dev.paths import REPOSITORY
from tests.unit.kube.test_hostile_objects import HOSTILE, TOPOLOGY, places, with_text
from tests.unit.reconcile.examples import topology

from rackspan.api.client_properties import CLIENT_PROPERTIES, first_error
from rackspan.api.codec import SpecError
from rackspan.api.racktopology import KafkaSpec, RackTopology
from rackspan.api.reasons import Reason
from rackspan.kafka.client_config import client_properties
from rackspan.kafka.oauth_login import OauthLogin, login_of
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.ports import Credentials

OWN = {
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.endpoint.identification.algorithm",
    "https.ca.pem",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "topic.metadata.refresh.interval.ms",
}
"""The properties that the operator sets."""
CREDENTIALS = Credentials("ca", "certificate", "key", "user", "password")
EDGES = {
    "client.id": ["a" * 255, "Zürich"],
    "ssl.cipher.suites": ["HIGH:!aNULL", "ECDHE-RSA-AES256-GCM-SHA384"],
    "ssl.curves.list": ["X25519:P-256"],
    "ssl.sigalgs.list": ["RSA+SHA256:ECDSA+SHA384"],
    "debug": ["broker,security", "all"],
}


def _values(one):
    """Return the extreme values that a property accepts."""
    if limits := re.fullmatch(r"a whole number from (\d+) to (\d+)", one.values):
        return list(limits.groups())
    if one.values == "true or false":
        return ["true", "false"]
    return one.values.removeprefix("one of ").split(", ") if one.values.startswith("one of ") else EDGES[one.name]


def test_property_that_would_end_the_process_is_rejected():
    program = """
import asyncio
from rackspan.api.racktopology import KafkaSpec
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.client_config import client_properties
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import Credentials

async def main():
    try:
        spec = KafkaSpec("127.0.0.1:1", properties={"internal.termination.signal": "9"})
        ConfluentAdmin(client_properties(spec, Credentials()))
    except FailureError as error:
        print(error.failure.reason, error.failure.message)
    await asyncio.sleep(1)  # the client's threads would be ended meanwhile, and the process with them

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0
    assert done.stdout == (
        "InvalidSpec spec.kafka.properties: 'internal.termination.signal' is not among the client properties that may "
        "be set\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "internal.termination.signal",
        "default.topic.config",
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.location",
        "bootstrap.servers",
        "error_cb",
        "log_cb",
        "statistics.interval.ms",
        "Client.id",
        "client.id\n",
    ],
)
def test_property_that_is_not_on_the_list_is_rejected(name):
    with pytest.raises(FailureError, match="is not among the client properties that may be set") as caught:
        client_properties(KafkaSpec("kafka:9092", properties={name: "9"}), Credentials())
    assert caught.value.failure.reason is Reason.INVALID_SPEC
    assert caught.value.failure.remedy is Remedy.SPEC


@pytest.mark.parametrize("one", CLIENT_PROPERTIES.values(), ids=CLIENT_PROPERTIES)
def test_librdkafka_accepts_the_extreme_values_of_each_listed_property(one):
    for value in _values(one):
        assert first_error({one.name: value}) is None
        beside = {"reconnect.backoff.max.ms": "3600000"} if one.name == "reconnect.backoff.ms" else {}
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "logger": _Silent(), **beside, one.name: value})


@pytest.mark.parametrize("one", CLIENT_PROPERTIES.values(), ids=CLIENT_PROPERTIES)
def test_invalid_values_of_listed_properties_are_rejected(one):
    bad = ["", "a\nb", "a\0b", "\ud800", "9" * 5_000, "\x1b[2J"]
    if limits := re.fullmatch(r"a whole number from (\d+) to (\d+)", one.values):
        bad += [
            str(int(limits[1]) - 1),
            str(int(limits[2]) + 1),
            "1e3",
            " 5000",
            "\N{ARABIC-INDIC DIGIT FIVE}" * 4,
            "soon",
        ]
    for value in bad:
        words = first_error({one.name: value})
        assert words is not None, ascii(value)
        assert words.startswith(f"{one.name} is {one.values}, not ")
        assert words.isprintable()


def test_rule_in_the_crd_has_the_same_list_of_client_properties():
    definition = yaml.safe_load((REPOSITORY / "crds" / "racktopologies.yaml").read_text())
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rule = spec["properties"]["kafka"]["properties"]["properties"]["x-kubernetes-validations"][0]["rule"]
    assert rule.startswith("self.all(key, key in [")
    assert rule.endswith("])")
    assert re.findall(r"'([^']*)'", rule) == sorted(CLIENT_PROPERTIES)


@pytest.mark.parametrize("place", list(places(TOPOLOGY["spec"])), ids=str)
def test_hostile_string_in_a_topology_does_not_become_a_property_name(place):
    for text in HOSTILE:
        try:
            kafka = RackTopology.from_object(with_text(TOPOLOGY, place, text)).spec.kafka
            properties = client_properties(kafka, CREDENTIALS)
        except (SpecError, FailureError):
            continue
        assert properties.keys() <= CLIENT_PROPERTIES.keys() | OWN
        assert all(str(value).isprintable() for value in properties.values())


OAUTH = {"tokenEndpoint": "https://login.example.com/token", "scope": "kafka"}


def _tokens(oauth):
    sasl = {"mechanism": "OAUTHBEARER", "secretRef": {"name": "me"}, "oauth": oauth}
    return topology(kafka={"bootstrapServers": "kafka:9092", "sasl": sasl}).spec.kafka


def test_oauth_client_id_and_secret_are_those_of_the_secret():
    found = client_properties(_tokens(OAUTH), Credentials(username="me", password="canary", token_ca_pem="PEM"))
    login = login_of(found)
    assert login == OauthLogin(OAUTH["tokenEndpoint"], "me", "canary", "kafka", None, "PEM")
    assert found["security.protocol"] == "SASL_PLAINTEXT"
    assert "sasl.password" not in found


@pytest.mark.parametrize(
    ("oauth", "sentence"),
    [
        (None, "^OAUTHBEARER needs spec.kafka.sasl.oauth$"),
        ({**OAUTH, "tokenEndpoint": "http://127.0.0.1/"}, "^spec.kafka.sasl.oauth.tokenEndpoint: it has to begin with"),
        ({**OAUTH, "tokenEndpoint": "https://me:canary@a/"}, "a user name or a password has no place in the URL$"),
        ({**OAUTH, "scope": "a\nb"}, "^spec.kafka.sasl.oauth.scope is not printable ASCII$"),
    ],
)
def test_invalid_oauth_settings_are_rejected_without_admission(oauth, sentence):
    with pytest.raises(FailureError, match=sentence) as caught:
        client_properties(_tokens(oauth), CREDENTIALS)
    assert (caught.value.failure.reason, caught.value.failure.remedy) == (Reason.INVALID_SPEC, Remedy.SPEC)


class _Silent:
    def log(self, *_):
        """Discard the message."""
