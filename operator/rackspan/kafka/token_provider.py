"""Tokens for both Kafka clients of one cluster: asked for once, renewed before they expire."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.kafka.aws_credentials import credentials_of
from rackspan.kafka.msk_login import AwsUser, MskLogin
from rackspan.kafka.msk_token import signed
from rackspan.kafka.oauth_login import login_of, uses_tokens
from rackspan.kafka.token_request import Token, ask, no_answer, trust
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rackspan.kafka.oauth_login import OauthLogin

SECONDS = 10.0
"""How long a token endpoint may take."""
_GRACE_SECONDS = 1.0
_RENEW_AT = 0.8
"""Of a token's life; both clients log in again later than that."""
_PAUSE_SECONDS = 3.0
"""An endpoint that failed is not asked again before: clients ask for each connection."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A token with its times on the monotonic clock: nobody's clock has to be right."""

    token: Token
    asked_at: float

    @property
    def renewed_from(self) -> float:
        return self.asked_at + self.token.seconds * _RENEW_AT

    @property
    def until(self) -> float:
        return self.asked_at + self.token.seconds


def token_provider(properties: Mapping[str, str | int | bool]) -> TokenProvider | None:
    """Give the tokens of a client with these properties; None where it logs in without. Raises FailureError."""
    return TokenProvider(login_of(properties)) if uses_tokens(properties) else None


def cause(tokens: TokenProvider | None, failure: Failure) -> Failure:
    """Why a call failed: without a token, what followed from that is not worth a message."""
    return (tokens.failure if tokens is not None else None) or failure


class TokenProvider:
    """
    The present token of one login, for any thread.

    It asks in a thread of its own, one at a time, because a host name may take longer to resolve than any deadline.
    """

    def __init__(self, login: OauthLogin | MskLogin, seconds: float = SECONDS) -> None:
        """Raise FailureError where the endpoint's certificate authority cannot be used."""
        self._seconds = seconds
        self._new, self._no_answer = _question(login, seconds)
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._asking: Future[_Held] | None = None
        self._failure: Failure | None = None
        self._failed_at = 0.0

    @property
    def failure(self) -> Failure | None:
        """Why there is no valid token; None where there is one."""
        with self._lock:
            return None if self._good() else self._failure

    def token(self) -> str:
        """A valid token. Raises FailureError, within the time that the endpoint has."""
        return self._present().token.text

    def for_librdkafka(self, _: str = "") -> tuple[str, float]:
        """The token, and when it expires by this machine's clock: what `oauth_cb` returns. Raises FailureError."""
        held = self._present()
        return held.token.text, time.time() + held.until - time.monotonic()

    def _present(self) -> _Held:
        with self._lock:
            good, now = self._good(), time.monotonic()
            if good is not None and now < good.renewed_from:
                return good
            if self._failure is not None and now < self._failed_at + _PAUSE_SECONDS:
                if good is not None:
                    return good
                raise FailureError(self._failure)
            asking = self._asking or self._begin()
        try:
            return asking.result(self._seconds + _GRACE_SECONDS)
        except TimeoutError:
            failure = self._no_answer
        except FailureError as error:
            failure = error.failure
        with self._lock:
            self._failure, self._failed_at = failure, time.monotonic()
            good = self._good()
        if good is not None:
            return good
        raise FailureError(failure)

    def _good(self) -> _Held | None:
        held = self._held
        return held if held is not None and time.monotonic() < held.until else None

    def _begin(self) -> Future[_Held]:
        asking = self._asking = Future[_Held]()
        threading.Thread(target=self._ask, args=[asking], name="kafka-token", daemon=True).start()
        return asking

    def _ask(self, asking: Future[_Held]) -> None:
        asked_at = time.monotonic()
        try:
            held = _Held(self._new(), asked_at)
        except BaseException as error:  # whoever waits for it has to hear of it
            with self._lock:
                self._asking = None
            asking.set_exception(error)
            return
        with self._lock:
            self._held, self._failure, self._asking = held, None, None
        asking.set_result(held)


def _question(login: OauthLogin | MskLogin, seconds: float) -> tuple[Callable[[], Token], Failure]:
    """What gives a new token, and the Failure where it takes too long."""
    if isinstance(login, MskLogin):
        what = f"no token for Kafka: AWS has given no credentials within {seconds:g} s"
        return lambda: _signed(login), Failure(Reason.AUTHENTICATION_FAILED, what, Remedy.RETRY)
    context = trust(login)
    return lambda: ask(login, context, seconds), no_answer(login, seconds)


def _signed(login: MskLogin) -> Token:
    keys = login.credentials
    return signed(credentials_of(keys, login.region) if isinstance(keys, AwsUser) else keys, login.region)
