"""TLS contexts that trust certificate authorities in PEM."""

from __future__ import annotations

import ssl


def context_of(file: str | None, pem: str | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities in a file and in a text, or those of the system without both.

    Raises OSError (such as ssl.SSLError) and ValueError.
    """
    # Python accepts only ASCII. Bundles have other characters in comments, which OpenSSL ignores.
    ascii_pem = None if pem is None else pem.encode("ascii", "replace").decode()
    return ssl.create_default_context(cafile=file, cadata=ascii_pem)
