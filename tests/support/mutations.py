"""Random mutations of manifests, like those by typing errors, templates and hostile users."""

import copy
import random
from collections.abc import Iterator
from typing import Any

JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2.5,
    2**31,
    2**63,
    -(2**70),
    1e300,
    "",
    " ",
    "0",
    "-1",
    "1e3",
    "true",
    "null",
    "/",
    "//",
    "/eu/*/r1",
    "../../etc/passwd",
    "a" * 300,
    "a" * 5000,
    "ü",
    "\u0000",
    "\u2028",
    "\U0001f40d",
    "{{ .Values.topic }}",
    "$(reboot)",
    [],
    [[]],
    [None],
    [1, 1],
    ["a", 1, {}],
    {},
    {"": ""},
    {"a": {"b": {"c": []}}},
)


def mutated(manifest: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a copy with one to three random changes in its spec."""
    result = copy.deepcopy(manifest)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(result["spec"], result, "spec"))
        container, key = chance.choice(places)
        chance.choice(_CHANGES)(container, key, places, chance)
        if not isinstance(result.get("spec"), dict):
            break
    return result


def _places(value: Any, container: Any, key: Any) -> Iterator[tuple[Any, Any]]:
    yield container, key
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _places(child, value, name)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _places(child, value, index)


def _put_junk(container: Any, key: Any, _: Any, chance: random.Random) -> None:
    container[key] = copy.deepcopy(chance.choice(JUNK))


def _remove(container: Any, key: Any, _: Any, __: Any) -> None:
    del container[key]


def _move_here(container: Any, key: Any, places: list[tuple[Any, Any]], chance: random.Random) -> None:
    """Copy the value of another place here, as if pasted with the wrong indentation."""
    other, name = chance.choice(places)
    container[key] = copy.deepcopy(other[name])


def _misspell(container: Any, key: Any, _: Any, __: Any) -> None:
    if isinstance(container, dict):
        container[f"{key}s"] = container.pop(key)
    else:
        container.append(copy.deepcopy(container[key]))


def _as_text(container: Any, key: Any, _: Any, __: Any) -> None:
    """Turn a number into a string, or a numeric string into a number."""
    value = container[key]
    container[key] = int(value) if isinstance(value, str) and value.isdecimal() else str(value)


def _nudge(container: Any, key: Any, _: Any, chance: random.Random) -> None:
    """Change the value but keep its type. The result is often valid."""
    value = container[key]
    if isinstance(value, bool):
        container[key] = not value
    elif isinstance(value, int):
        container[key] = value + chance.choice((-1, 1, 10))
    elif isinstance(value, str) and value:
        at = chance.randrange(len(value))
        container[key] = value[:at] + chance.choice(("", "x", "0", "/", ".")) + value[at + 1 :]
    elif isinstance(value, list):
        chance.shuffle(value)


_CHANGES = (_put_junk, _put_junk, _remove, _move_here, _misspell, _as_text, _nudge, _nudge, _nudge)
