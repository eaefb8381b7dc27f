"""A token for Amazon MSK: a URL that the client signs itself, in Base64. Nobody is asked for it.

It is AWS Signature Version 4, as query parameters
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html), of the request that AWS's
own signers for MSK sign (https://github.com/aws/aws-msk-iam-sasl-signer-python). Theirs is not used: boto3, which it
needs, takes 26 MiB of memory in each process of Kafka clients, and an older python-dateutil than the operator has.
"""

from __future__ import annotations

import base64
import hmac
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from rackspan.kafka.token_request import Token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.kafka.msk_login import AwsKeys

_SECONDS: Final = 900
"""The life of a token. Brokers take no longer one."""
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_NO_PAYLOAD: Final = sha256().hexdigest()


def signed(keys: AwsKeys, region: str) -> Token:
    """A token for the brokers of a region."""
    return Token(token_text(keys, region, datetime.now(UTC)), _SECONDS)


def token_text(keys: AwsKeys, region: str, at: datetime) -> str:
    """The token that is signed at this time."""
    host, action = f"kafka.{region}.amazonaws.com", {"Action": "kafka-cluster:Connect"}
    url = presigned_url(host, "/", action, "kafka-cluster", region, keys, at, _SECONDS)
    return base64.urlsafe_b64encode(f"{url}&User-Agent=rackspan".encode()).decode().rstrip("=")


def presigned_url(
    host: str,
    path: str,
    query: Mapping[str, str],
    service: str,
    region: str,
    keys: AwsKeys,
    at: datetime,
    seconds: int,
    payload: str = _NO_PAYLOAD,
) -> str:
    """A URL to GET, good for some seconds from `at` on. `payload`: the body's hash, or what S3 has in place of it."""
    time = f"{at:%Y%m%dT%H%M%SZ}"
    scope = f"{at:%Y%m%d}/{region}/{service}/aws4_request"
    parameters = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key_id}/{scope}",
        "X-Amz-Date": time,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
    }
    if keys.session_token:
        parameters["X-Amz-Security-Token"] = keys.session_token
    encoded = urlencode(sorted(parameters.items()), quote_via=quote, safe="")
    request = "\n".join(("GET", path, encoded, f"host:{host}", "", "host", payload))
    words = "\n".join((_ALGORITHM, time, scope, sha256(request.encode()).hexdigest()))
    signature = hmac.digest(signing_key(keys.secret_access_key, scope), words.encode(), "sha256").hex()
    return f"https://{host}{path}?{encoded}&X-Amz-Signature={signature}"


def signing_key(secret: str, scope: str) -> bytes:
    """The key for a scope: a date, a region, a service and `aws4_request`."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
