"""The AWS credentials of the user who runs a command, from the environment or from botocore."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from rackspan.kafka.msk_login import AwsKeys, checked, no_token

if TYPE_CHECKING:
    from rackspan.kafka.msk_login import AwsUser

logging.getLogger("botocore").setLevel(logging.CRITICAL)  # it logs whole responses; calls return the important errors
_ID, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_QUOTED = ("ConfigParseError", "EndpointConnectionError", "PartialCredentialsError", "ProfileNotFound")
"""Errors of botocore whose messages contain no secret. Other messages may quote the output of a program."""


def credentials_of(user: AwsUser, region: str) -> AwsKeys:
    """Return the current credentials. Raises FailureError if there are none, or if AWS refuses a role."""
    own = AwsKeys(os.environ.get(_ID, ""), os.environ.get(_SECRET, ""), os.environ.get(_TOKEN))
    if own.access_key_id and own.secret_access_key and not user.profile and not user.role_arn:
        keys: AwsKeys | None = own
    else:
        keys = _by_botocore(user, region)
    if keys is None:
        raise no_token(f"there are no AWS credentials: set {_ID} and {_SECRET}, or AWS_PROFILE")
    return checked(keys)


def _by_botocore(user: AwsUser, region: str) -> AwsKeys | None:
    try:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra
        from botocore.session import Session  # noqa: PLC0415 - the same
    except ImportError as error:
        why = f"{_ID} and {_SECRET} are not set, or not used, and for other AWS credentials botocore is not installed"
        raise no_token(f"{why}: pip install 'rackspan[msk]'") from error
    try:
        session = Session(profile=user.profile)
        if user.role_arn:
            sts = session.create_client("sts", region_name=user.sts_region or region)
            role = sts.assume_role(RoleArn=user.role_arn, RoleSessionName=user.role_session_name or "rackspan")[
                "Credentials"
            ]
            return AwsKeys(role["AccessKeyId"], role["SecretAccessKey"], role["SessionToken"])
        found: Any = session.get_credentials()
        if found is None:
            return None
        frozen = found.get_frozen_credentials()
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "an error")
        role = f" to the role {user.role_arn}" if user.role_arn else ""  # a profile may have a role, too
        raise no_token(f"AWS says {code}{role}") from error
    except (BotoCoreError, OSError, RuntimeError, ValueError) as error:
        name = type(error).__name__
        raise no_token(f"botocore says {name}" + (f": {error}" if name in _QUOTED else "")) from error
