"""A fake API server that records requests. `Rest` uses it as its client."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Self

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def response(self) -> "Answer":
        """The inner response, which is also the content; these have `release` and `iter_any`."""
        return self

    content = response

    @property
    def _text(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        whole = json.dumps(self.body, ensure_ascii=False)
        return _SURROGATE.sub("\ufffd", whole).encode()  # the API server replaces surrogates in the same way

    async def read(self) -> bytes:
        return self._text

    def iter_any(self) -> "_Pieces":
        text = self._text
        return _Pieces(iter([text[start : start + 100_000] for start in range(0, len(text), 100_000)]))

    def release(self) -> None:
        """Do nothing: there is no connection."""


@dataclass
class _Pieces:
    """An iterator over chunks. The event loop would hold a generator until it closes it."""

    left: Iterator[bytes]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self.left:
            return piece
        raise StopAsyncIteration


@dataclass
class RecordingApi:
    """`answer` maps a method and a path with its query to a response; `asked` are all requests, in order."""

    answer: Callable[[str, str], Answer] = lambda _, __: Answer()
    asked: list[tuple[str, str]] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    configuration: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(host="https://kube.example.com"))

    async def param_serialize(self, method, path, header_params=None, body=None, auth_settings=None):
        return method, path, header_params, body

    async def call_api(self, method, path, headers, body, _request_timeout=None):
        self.asked.append((method, path))
        self.sent.append(body)
        return self.answer(method, path)

    async def close(self) -> None:
        """Do nothing: no connection is open."""
