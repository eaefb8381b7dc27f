"""A client that creates and replaces objects on a real API server and returns the responses."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from tests.support.schemas import definitions

PLURALS = {kind: definition["spec"]["names"]["plural"] for kind, definition in definitions().items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: the HTTP status, the object or Status in its body, and one (field, message) per cause."""

    code: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.code in (200, 201)

    @property
    def causes(self) -> list[tuple[str, str]]:
        details = self.body.get("details") or {}
        return [(cause.get("field", ""), cause["message"]) for cause in details.get("causes") or ()]

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class ApiServer:
    """A client with strict field validation, as in kubectl. With `dry_run`, all checks run and nothing is stored."""

    def __init__(self, api: client.ApiClient) -> None:
        self._custom = client.CustomObjectsApi(api)

    def create(self, namespace: str, manifest: Mapping[str, Any], *, dry_run: bool) -> Answer:
        return self._answer(
            self._custom.create_namespaced_custom_object_with_http_info,
            **self._address(namespace, manifest),
            body=manifest,
            **_options(dry_run=dry_run),
        )

    def read(self, namespace: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return dict(
            self._custom.get_namespaced_custom_object(
                **self._address(namespace, manifest), name=manifest["metadata"]["name"]
            )
        )

    def replace(self, namespace: str, manifest: Mapping[str, Any], *, dry_run: bool) -> Answer:
        return self._answer(
            self._custom.replace_namespaced_custom_object_with_http_info,
            **self._address(namespace, manifest),
            name=manifest["metadata"]["name"],
            body=manifest,
            **_options(dry_run=dry_run),
        )

    def replace_status(self, namespace: str, manifest: Mapping[str, Any]) -> Answer:
        return self._answer(
            self._custom.replace_namespaced_custom_object_status_with_http_info,
            **self._address(namespace, manifest),
            name=manifest["metadata"]["name"],
            body=manifest,
            field_validation="Strict",
        )

    @staticmethod
    def _address(namespace: str, manifest: Mapping[str, Any]) -> dict[str, str]:
        group, version = manifest["apiVersion"].split("/")
        return {"group": group, "version": version, "namespace": namespace, "plural": PLURALS[manifest["kind"]]}

    @staticmethod
    def _answer(call: Any, **arguments: Any) -> Answer:
        try:
            body, code, _ = call(**arguments)
        except client.ApiException as error:
            return Answer(error.status, _json(error.body))
        return Answer(code, body)


def _options(*, dry_run: bool) -> dict[str, str]:
    return {"field_validation": "Strict", **({"dry_run": "All"} if dry_run else {})}


def _json(text: Any) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError):
        return {"message": str(text)}
