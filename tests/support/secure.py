"""Topologies of the Kafka with TLS and SASL, and the Secrets that they use."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dev.stack.kafka_cluster import KafkaCluster, Listener
from kubernetes import client
from tests.support.objects import Json, Objects

USER = "rackspan"


@dataclass(frozen=True, slots=True)
class Secure:
    """The Secrets of one namespace, and topologies that use them. Racks come from Kafka, so no pods are needed."""

    objects: Objects
    kafka: KafkaCluster

    @property
    def ca(self) -> str:
        return self.kafka.ca.cert.read_text()

    @property
    def password(self) -> str:
        return self.kafka.client_config("SASL_SSL", USER)["sasl.password"]

    def secret(self, name: str, **entries: str | bytes) -> None:
        """Create or replace a Secret. `_` in a keyword means a dot."""
        core, namespace = client.CoreV1Api(self.objects.api), self.objects.namespace
        data = {
            key.replace("_", "."): base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
            for key, value in entries.items()
        }
        body: Any = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        try:
            core.replace_namespaced_secret(name, namespace, body)
        except client.ApiException as error:
            if error.status != 404:
                raise
            core.create_namespaced_secret(namespace, body)

    def default_secrets(self) -> None:
        """Create valid Secrets `ca`, `user` and `client`."""
        certificate = self.kafka.client_certificate
        self.secret("ca", ca_crt=self.ca)
        self.secret("user", username=USER, password=self.password)
        self.secret("client", tls_crt=certificate.cert.read_text(), tls_key=certificate.key.read_text())

    def spec(self, listener: Listener, mechanism: str = "SCRAM-SHA-512", **kafka: Any) -> Json:
        """Return `spec.kafka` for a listener, with the Secrets of `default_secrets`. `kafka` is merged into it."""
        spec: Json = {"bootstrapServers": self.kafka.bootstrap(listener)}
        if listener.endswith("SSL"):
            spec["tls"] = {"caSecretRef": {"name": "ca"}}
        if listener == "SSL":
            spec["tls"]["clientCertSecretRef"] = {"name": "client"}
        if listener.startswith("SASL"):
            spec["sasl"] = {"mechanism": mechanism, "secretRef": {"name": "user"}}
        return {**spec, **kafka}

    def create_topology(self, kafka: Mapping[str, Any], **spec: Any) -> Json:
        return self.objects.create_topology("", kafka=dict(kafka), rackSource="Broker", brokers=None, **spec)
