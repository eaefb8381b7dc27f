"""The login of a client at Amazon MSK with IAM (AWS_MSK_IAM): the region and the credentials.

The Kafka clients send the tokens as OAUTHBEARER. The property names are Rackspan's own: neither client has any.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, KafkaSetting, Remedy, invalid_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

MSK_MECHANISM: Final = "AWS_MSK_IAM"
PREFIX: Final = "aws."
REGION: Final = "aws.region"
ACCESS_KEY_ID: Final = "aws.access.key.id"
SECRET_ACCESS_KEY: Final = "aws.secret.access.key"  # noqa: S105 - a property's name
SESSION_TOKEN: Final = "aws.session.token"  # noqa: S105 - the same
USER: Final = "aws.user"
"""`true`: use the credentials of the user who runs the command. The operator never sets it, so that no topology gets
the credentials of the operator's own pod."""
PROFILE: Final = "aws.profile"
ROLE_ARN: Final = "aws.role.arn"
ROLE_SESSION_NAME: Final = "aws.role.session.name"
STS_REGION: Final = "aws.sts.region"
_NAMES: Final = frozenset(
    {REGION, ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN, USER, PROFILE, ROLE_ARN, ROLE_SESSION_NAME, STS_REGION}
)
_MODULE: Final = "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;"
_REGION: Final = re.compile(r"[a-z][a-z0-9-]{1,30}[0-9]")
_SERVER: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]{1,32})\.amazonaws\.com(?:\.cn)?(?::[0-9]{1,5})?\Z")
_ACCESS_KEY: Final = re.compile(r"[A-Z0-9]{16,128}")
"""An id has no lower-case letters, so a secret key in its place is refused. A token shows the id."""
_LONGEST: Final = 8_192


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """An AWS access key. Temporary keys also have a session token."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AwsUser:
    """The credentials of the user who runs the command, from a profile if set, and the role to assume with them."""

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str | None = None
    sts_region: str | None = None


@dataclass(frozen=True, slots=True)
class MskLogin:
    """The region that tokens are signed for, and the credentials that sign them."""

    region: str
    credentials: AwsKeys | AwsUser


def msk_login_of(properties: Mapping[str, str | int | bool]) -> MskLogin:
    """Return the login in a client's properties. Raises FailureError if any is missing, invalid or unsupported."""
    given = {name: str(value) for name, value in properties.items() if name.startswith(PREFIX)}
    for name in sorted(given.keys() - _NAMES):
        raise invalid_spec(f"{name} is not supported")
    if str(properties.get("security.protocol", "")).upper() != "SASL_SSL":
        raise invalid_spec(f"{MSK_MECHANISM} needs TLS (SASL_SSL), so that the token is encrypted", KafkaSetting.TLS)
    region = given.get(REGION) or _region(str(properties["bootstrap.servers"]))
    if _REGION.fullmatch(region) is None:
        raise invalid_spec(f"{region[:40]!a} is not an AWS region, such as eu-west-1")
    if given.get(USER) != "true":
        return MskLogin(region, _keys(given))
    return MskLogin(region, AwsUser(*map(given.get, (PROFILE, ROLE_ARN, ROLE_SESSION_NAME, STS_REGION))))


def _region(servers: str) -> str:
    for server in servers.lower().split(","):
        found = _SERVER.search(server.strip())
        if found is not None:
            return found[1]
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise invalid_spec(
            f"{MSK_MECHANISM} needs the cluster's region, which is not in the brokers' names: set AWS_REGION"
        )
    return region


def _keys(given: Mapping[str, str]) -> AwsKeys:
    keys = AwsKeys(given.get(ACCESS_KEY_ID, ""), given.get(SECRET_ACCESS_KEY, ""), given.get(SESSION_TOKEN))
    if not keys.access_key_id or not keys.secret_access_key:
        raise invalid_spec(f"{MSK_MECHANISM} needs an access key, or {_MODULE}")
    return checked(keys)


def checked(keys: AwsKeys) -> AwsKeys:
    """Return `keys` unchanged. Raises FailureError if they are not valid, with a message that shows no part of them."""
    if _ACCESS_KEY.fullmatch(keys.access_key_id) is None:
        raise no_token("the access key id is not valid: an id has 16 to 128 upper-case letters and digits")
    token = keys.session_token or ""
    if len(token) > _LONGEST or not (token.isascii() and token.isprintable()):
        raise no_token(f"the session token is not valid: it has up to {_LONGEST:,} printable ASCII characters")
    return keys


def no_token(what: str) -> FailureError:
    """Return the error if no AWS credentials can be used."""
    return FailureError(Failure(Reason.AUTHENTICATION_FAILED, f"no token for Kafka: {what}", Remedy.ACCESS))
