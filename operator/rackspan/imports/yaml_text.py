"""YAML output in which every YAML reader reads strings as strings."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import yaml

_WIDTH = 160
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LOOKS_LIKE_MORE = re.compile(r"[-+.~0-9].*|[yYnN]", re.DOTALL)
"""Strings that some YAML readers take for a number, a time or a boolean, although PyYAML would not quote them."""


class QuotingDumper(_Dumper):  # type: ignore[misc]  # its parent is chosen at run time
    """A YAML dumper that quotes every string that some YAML reader might not read as a string."""


def _text(dumper: Any, text: str) -> Any:
    style = "'" if _LOOKS_LIKE_MORE.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


QuotingDumper.add_representer(str, _text)
QuotingDumper.add_multi_representer(StrEnum, _text)  # as in JSON


def yaml_text(document: Mapping[str, Any], dumper: type[QuotingDumper] = QuotingDumper) -> str:
    """Return a document as YAML with its keys in order; with escapes if it contains unprintable characters."""
    for letters in (True, False):
        text: str = yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=letters, width=_WIDTH)
        if text.replace("\n", "").isprintable():
            break
    return text
