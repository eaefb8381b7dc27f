"""A token for Amazon MSK: a URL in Base64 that the client signs itself, without a request to AWS.

The URL has an AWS Signature Version 4 in its query parameters
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html), for the same request as in
AWS's own signers for MSK (https://github.com/aws/aws-msk-iam-sasl-signer-python). Their library is not used: it needs
boto3, which takes 26 MiB of memory per Kafka client process, and an older python-dateutil than the operator has.
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
"""The lifetime of a token, which is the longest that brokers accept."""
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_NO_PAYLOAD: Final = sha256().hexdigest()


def signed(keys: AwsKeys, region: str) -> Token:
    """Return a token for the brokers of a region."""
    return Token(token_text(keys, region, datetime.now(UTC)), _SECONDS)


def token_text(keys: AwsKeys, region: str, at: datetime) -> str:
    """Return the text of a token signed at the time `at`."""
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
    """Return a URL for GET, valid for `seconds` from `at`. `payload` is the body's hash, or S3's placeholder for it."""
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
    """Return the key for a scope: a date, a region, a service and `aws4_request`."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
