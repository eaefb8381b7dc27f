"""TLS to the API server, by files that are replaced while the operator runs."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kubernetes.aio.client.rest import RESTClientObject

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger("rackspan.kube")


class ReloadingContext(ssl.SSLContext):
    """Reads authority and client certificate again before a handshake, where their files have changed.

    The kubelet writes a Pod's `ca.crt` anew when the cluster's authority is rotated. A context forgets no authority, so
    handshakes are those of another one, which is made anew.
    """

    def __new__(cls, settings: Any) -> Self:  # noqa: ARG004
        """A context for clients."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, settings: Any) -> None:
        """`settings` are the client's, which name the files. Raises OSError where these cannot be read."""
        self._settings = settings
        self._files = self._stamps()
        self._current = self._read()

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a handshake."""
        files = self._stamps()
        if files != self._files:
            try:
                self._current, self._files = self._read(), files
            except OSError as error:  # it may be written just now
                _log.warning("certificates for the API server cannot be read again: %s", error)
        return self._current.wrap_bio(*args, **kwargs)

    def _read(self) -> ssl.SSLContext:
        made: ssl.SSLContext = RESTClientObject(self._settings).ssl_context
        return made

    def _stamps(self) -> Sequence[object]:
        """What changes with a file's content."""
        settings = self._settings
        return [_stamp(path) for path in (settings.ssl_ca_cert, settings.cert_file, settings.key_file) if path]


def _stamp(path: str) -> object:
    try:
        found = Path(path).stat()
    except OSError:
        return path, None
    return path, found.st_ino, found.st_size, found.st_mtime_ns
