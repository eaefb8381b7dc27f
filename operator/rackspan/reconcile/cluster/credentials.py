"""Reads the Secrets that a RackTopology names, again at every resync so that rotation needs no restart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Credentials

if TYPE_CHECKING:
    from rackspan.api.racktopology import KafkaSpec
    from rackspan.reconcile.ports import KubeApi

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""The keys that Kubernetes allows in a Secret."""


async def read_credentials(kafka: KafkaSpec, namespace: str, kube: KubeApi) -> Credentials:
    """The credentials in the Secrets; None where the spec names none. Raises FailureError.

    It does for a Secret or key that is missing, and for a value that is empty or no UTF-8.
    """

    async def entry(name: str, key: str) -> str:
        if not _KEY.fullmatch(key):
            raise FailureError(Failure(Reason.INVALID_SPEC, f"{key[:80]!a} is no key of a Secret", Remedy.SPEC))
        data = await kube.secret(namespace, name)
        if key not in data:
            raise _unusable(f"Secret {namespace}/{name} has no key {key}")
        try:
            text = data[key].decode().strip()
        except UnicodeDecodeError as error:
            raise _unusable(f"Secret {namespace}/{name}: {key} is not text") from error
        if not text:
            raise _unusable(f"Secret {namespace}/{name}: {key} is empty")
        return text

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


def _unusable(message: str) -> FailureError:
    return FailureError(Failure(Reason.SECRET_NOT_FOUND, message, Remedy.ACCESS))
