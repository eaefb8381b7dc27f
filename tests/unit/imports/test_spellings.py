"""Scalars have the values that Kubernetes and topicctl read. spellings.json has the results of their libraries."""

import json
from pathlib import Path

import pytest

from rackspan.imports.manifest_documents import read_documents
from rackspan.imports.shared_fields import config_texts
from rackspan.imports.topicctl import setting_text

TABLE = json.loads((Path(__file__).parent / "spellings.json").read_text())["rows"]
EXACT = 2**53
"""Numbers in JavaScript and in the settings of topicctl represent all integers up to this one exactly."""


def only(text):
    found = read_documents(text.encode(), "t.yaml")
    return found.found[0][1] if found.found else None


def same(one, other):
    both_numbers = {type(one), type(other)} <= {int, float}
    return float(one) == float(other) if both_numbers and abs(one) > EXACT else (type(one), one) == (type(other), other)


def test_table_has_at_least_200_distinct_spellings():
    assert len(TABLE) >= 200
    assert len({spelling for spelling, *_ in TABLE}) == len(TABLE)


@pytest.mark.parametrize(("spelling", "value", "key", "setting"), TABLE, ids=[repr(one[0]) for one in TABLE])
def test_scalar_has_the_value_that_kubernetes_and_topicctl_read(spelling, value, key, setting):
    part = only(f"v: {spelling}\n")
    if value is None:
        assert part is None
        return
    read = part.fields.of["v"].value
    assert same(read, json.loads(value))
    texts, _ = config_texts(part, setting_text)
    if read is None:
        assert (texts, setting) == ({}, "")
    elif not isinstance(read, int) or abs(read) <= EXACT:  # topicctl loses digits of larger ones
        assert texts["v"] == setting
    if key is not None and not isinstance(read, float) and "e" not in key and key != "-0":
        assert list(only(f"{spelling}: 1\n").fields.of) == [key]
