"""Reads the Secrets that a RackTopology names. They are read again at every resync: rotation needs no restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Credentials

if TYPE_CHECKING:
    from rackspan.api.racktopology import KafkaSpec
    from rackspan.reconcile.ports import Cluster


async def read_credentials(kafka: KafkaSpec, namespace: str, kube: Cluster) -> Credentials:
    """What the topology's Secrets hold. Raises FailureError for a Secret or a key that is not there."""

    async def entry(name: str, key: str) -> str:
        data = await kube.secret(namespace, name)
        if key not in data:
            raise FailureError(
                Failure(Reason.SECRET_NOT_FOUND, f"Secret {namespace}/{name} has no key {key}", Remedy.ACCESS)
            )
        try:
            return data[key].decode().strip()
        except UnicodeDecodeError as error:
            raise FailureError(
                Failure(Reason.SECRET_NOT_FOUND, f"Secret {namespace}/{name}: {key} is not text", Remedy.ACCESS)
            ) from error

    tls, sasl = kafka.tls, kafka.sasl
    ca = tls.ca_secret_ref if tls else None
    client = tls.client_cert_secret_ref if tls else None
    return Credentials(
        ca_pem=await entry(ca.name, ca.key) if ca else None,
        certificate_pem=await entry(client.name, client.cert_key) if client else None,
        key_pem=await entry(client.name, client.key_key) if client else None,
        username=await entry(sasl.secret_ref.name, sasl.secret_ref.username_key) if sasl else None,
        password=await entry(sasl.secret_ref.name, sasl.secret_ref.password_key) if sasl else None,
    )
