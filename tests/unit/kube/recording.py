"""An API server that writes down what it is asked, behind the client that `Rest` is given."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class RecordingApi:
    """`answer` maps a method and a path with its query to what comes back; `asked` are all requests, in order."""

    answer: Callable[[str, str], Answer] = lambda _, __: Answer()
    asked: list[tuple[str, str]] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)

    async def param_serialize(self, method, path, header_params=None, body=None, auth_settings=None):
        return method, path, header_params, body

    async def call_api(self, method, path, headers, body, _request_timeout=None):
        self.asked.append((method, path))
        self.sent.append(body)
        return self.answer(method, path)

    async def close(self) -> None:
        """Nothing is open."""
