"""Tokens for both Kafka clients of one cluster: requested once, and renewed before they expire."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.kafka.aws_credentials import credentials_of
from rackspan.kafka.msk_login import AwsUser, MskLogin
from rackspan.kafka.msk_token import signed
from rackspan.kafka.oauth_login import login_of, uses_tokens
from rackspan.kafka.token_request import Token, ask, no_answer, trust
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.lease import uptime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rackspan.kafka.oauth_login import OauthLogin

SECONDS = 10.0
"""The time limit of a token request."""
_GRACE_SECONDS = 1.0
_RENEW_AT = 0.8
"""The fraction of a token's lifetime after which it is renewed. Both clients log in again later than that."""
_PAUSE_SECONDS = 3.0
"""The pause after a failed request. Clients need a token for each connection, so they would retry at once."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A token with its times in seconds of `uptime`, so that neither a wrong system clock nor a suspend extends it."""

    token: Token
    asked_at: float

    @property
    def renewed_from(self) -> float:
        return self.asked_at + self.token.seconds * _RENEW_AT

    @property
    def until(self) -> float:
        return self.asked_at + self.token.seconds


def token_provider(properties: Mapping[str, str | int | bool]) -> TokenProvider | None:
    """Return the tokens for a client with these properties, or None if it uses no tokens. Raises FailureError."""
    return TokenProvider(login_of(properties)) if uses_tokens(properties) else None


def cause(tokens: TokenProvider | None, failure: Failure) -> Failure:
    """Return why a call failed: the failure to get a token if there is no valid token, else `failure`."""
    return (tokens.failure if tokens is not None else None) or failure


class TokenProvider:
    """The current token of one login. Thread-safe.

    A separate thread sends the requests, one at a time, because the resolution of a host name may exceed any deadline.
    """

    def __init__(self, login: OauthLogin | MskLogin, seconds: float = SECONDS) -> None:
        """Raise FailureError if the endpoint's certificate authority cannot be used."""
        self._seconds = seconds
        self._new, self._no_answer = _question(login, seconds)
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._asking: Future[_Held] | None = None
        self._failure: Failure | None = None
        self._failed_at = 0.0

    @property
    def failure(self) -> Failure | None:
        """The reason why there is no valid token, or None."""
        with self._lock:
            return None if self._good() else self._failure

    def token(self) -> str:
        """Return a valid token. Raises FailureError, soon after the time limit of the request at the latest."""
        return self._present().token.text

    def for_librdkafka(self, _: str = "") -> tuple[str, float]:
        """Return what `oauth_cb` has to: the token, and its expiry by this machine's clock. Raises FailureError."""
        held = self._present()
        return held.token.text, time.time() + held.until - uptime()

    def _present(self) -> _Held:
        with self._lock:
            good, now = self._good(), uptime()
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
            self._failure, self._failed_at = failure, uptime()
            good = self._good()
        if good is not None:
            return good
        raise FailureError(failure)

    def _good(self) -> _Held | None:
        held = self._held
        return held if held is not None and uptime() < held.until else None

    def _begin(self) -> Future[_Held]:
        """Start a request, and return its result. The caller holds the lock."""
        asking = Future[_Held]()
        try:
            threading.Thread(target=self._ask, args=[asking], name="kafka-token", daemon=True).start()
        except RuntimeError as error:  # too many threads, or too little memory
            asking.set_exception(_no_thread(error))
            return asking
        self._asking = asking
        return asking

    def _ask(self, asking: Future[_Held]) -> None:
        asked_at = uptime()
        try:
            held = _Held(self._requested(), asked_at)
        except BaseException as error:  # the waiting threads need the error
            with self._lock:
                self._asking = None
            asking.set_exception(error)
            return
        with self._lock:
            self._held, self._failure, self._asking = held, None, None
        asking.set_result(held)

    def _requested(self) -> Token:
        """Return a new token. Raises FailureError, so that no other exception keeps a valid token from being used."""
        try:
            return self._new()
        except (FailureError, MemoryError):
            raise
        except Exception as error:  # its text may contain a secret
            what = f"no token for Kafka: the request failed with {type(error).__name__}"
            raise FailureError(replace(self._no_answer, what=what)) from error


def _question(login: OauthLogin | MskLogin, seconds: float) -> tuple[Callable[[], Token], Failure]:
    """Return a function that returns a new token, and the Failure if it takes too long."""
    if isinstance(login, MskLogin):
        what = f"no token for Kafka: AWS has given no credentials within {seconds:g} s"
        return lambda: _signed(login), Failure(Reason.AUTHENTICATION_FAILED, what, Remedy.RETRY)
    context = trust(login)
    return lambda: ask(login, context, seconds), no_answer(login, seconds)


def _no_thread(error: RuntimeError) -> FailureError:
    what = "no token for Kafka: no thread can be started for the request"
    failed = FailureError(Failure(Reason.AUTHENTICATION_FAILED, what, Remedy.RETRY))
    failed.__cause__ = error
    return failed


def _signed(login: MskLogin) -> Token:
    keys = login.credentials
    return signed(credentials_of(keys, login.region) if isinstance(keys, AwsUser) else keys, login.region)
