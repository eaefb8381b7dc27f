"""The clients of one Kafka cluster, replaced when the topology's spec or its Secrets change.

The client for topics reads its RackTopology's Secrets again at every resync, so that rotation needs no restart.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from rackspan.api.reasons import Reason
from rackspan.reconcile.cluster.batching import GroupedAdmin
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Credentials

if TYPE_CHECKING:
    from rackspan.api.racktopology import KafkaSpec, RackTopology
    from rackspan.reconcile.ports import KafkaAdmin, KafkaConnector, KubeApi, ReassignmentAdmin, ReassignmentConnector


_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""The keys that Kubernetes allows in a Secret."""
_SESSION_TOKEN: Final = "sessionToken"  # noqa: S105 - the name of a key
"""The key of the session token, which only temporary AWS access keys have."""
_log = logging.getLogger("rackspan.reconcile")


async def read_credentials(kafka: KafkaSpec, namespace: str, kube: KubeApi) -> Credentials:
    """Return the credentials in the Secrets. Credentials without a Secret in the spec are None.

    Raises FailureError if a Secret or key is missing, or if a value is empty or not UTF-8.
    """
    secrets = {name: await kube.secret(namespace, name) for name in sorted(kafka.secret_names)}

    def entry(name: str, key: str) -> str:
        if not _KEY.fullmatch(key):
            raise FailureError(Failure(Reason.INVALID_SPEC, f"{key[:80]!a} is not a key of a Secret", Remedy.SPEC))
        data = secrets[name]
        if key not in data:
            raise unusable_secret(f"Secret {namespace}/{name} has no key {key}")
        try:
            text = data[key].decode().strip()
        except UnicodeDecodeError as error:
            raise unusable_secret(f"Secret {namespace}/{name}: {key} is not text") from error
        if not text:
            raise unusable_secret(f"Secret {namespace}/{name}: {key} is empty")
        return text

    tls, sasl = kafka.tls, kafka.sasl
    ca = tls.ca_secret_ref if tls else None
    client = tls.client_cert_secret_ref if tls else None
    token_ca = sasl.oauth.ca_secret_ref if sasl and sasl.oauth else None
    aws = sasl.secret_ref.name if sasl and sasl.msk_iam else None
    return Credentials(
        ca_pem=entry(ca.name, ca.key) if ca else None,
        certificate_pem=entry(client.name, client.cert_key) if client else None,
        key_pem=entry(client.name, client.key_key) if client else None,
        username=entry(sasl.secret_ref.name, sasl.keys[0]) if sasl else None,
        password=entry(sasl.secret_ref.name, sasl.keys[1]) if sasl else None,
        token_ca_pem=entry(token_ca.name, token_ca.key) if token_ca else None,
        session_token=entry(aws, _SESSION_TOKEN) if aws is not None and _SESSION_TOKEN in secrets[aws] else None,
    )


def unusable_secret(message: str) -> FailureError:
    """Return the error of a Secret without the credentials that it should have."""
    return FailureError(Failure(Reason.SECRET_NOT_FOUND, message, Remedy.ACCESS))


class Session:
    """The client for topics. At most one client exists at a time."""

    def __init__(self, kafka: KafkaConnector, kube: KubeApi) -> None:
        self.admin: KafkaAdmin | None = None
        """The current client, if any."""
        self._kafka = kafka
        self._kube = kube
        self._connected_with: tuple[KafkaSpec, Credentials] | None = None
        """The spec and credentials of the last client, kept to reconnect while the API server cannot be reached."""

    async def connect(self, topology: RackTopology, *, fresh_secrets: bool) -> KafkaAdmin:
        """Return a client for the topology's current spec and Secrets, which are read again if `fresh_secrets`.

        Raises FailureError if a Secret is missing or Kafka cannot be reached.
        """
        kafka = topology.spec.kafka
        last = self._connected_with[1] if self._connected_with and self._connected_with[0] == kafka else None
        if self.admin is not None and last is not None and not (fresh_secrets and kafka.secret_names):
            return self.admin
        try:
            credentials = await read_credentials(kafka, topology.meta.namespace, self._kube)
        except FailureError as error:
            if last is None or error.failure.remedy is not Remedy.RETRY:
                raise
            credentials = last  # the API server cannot be reached, but Kafka may be
        if self.admin is not None and credentials == last:
            return self.admin
        admin = GroupedAdmin(await self._kafka.connect(topology.key, kafka, credentials))
        before, self.admin, self._connected_with = self.admin, admin, (kafka, credentials)
        if before is not None:
            await before.close()  # last, because this may be cancelled
        _log.info("topology %s: connected to %s", topology.key, kafka.bootstrap_servers)
        return admin

    async def close(self) -> None:
        """Close the client, if there is one."""
        admin, self.admin = self.admin, None
        if admin is not None:
            await admin.close()


class ReassignmentClient:
    """The client that moves replicas, replaced when the topology's spec changes or after `close`."""

    def __init__(self, connector: ReassignmentConnector, kube: KubeApi) -> None:
        self._connector = connector
        self._kube = kube
        self._admin: ReassignmentAdmin | None = None
        self._connected_with: KafkaSpec | None = None

    async def admin(self, topology: RackTopology) -> ReassignmentAdmin:
        """Return a client for the topology's spec, with the Secrets read at its creation. Raises FailureError."""
        kafka = topology.spec.kafka
        if self._admin is not None and self._connected_with == kafka:
            return self._admin
        await self.close()
        credentials = await read_credentials(kafka, topology.meta.namespace, self._kube)
        self._admin = await self._connector.connect(topology.key, kafka, credentials)
        self._connected_with = kafka
        return self._admin

    async def close(self) -> None:
        """Close the client, if any. The next client reads the Secrets again."""
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()
