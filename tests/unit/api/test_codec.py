"""Conversion between types and the JSON of the Kubernetes API."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackspan.api.codec import ApiStruct, SpecError, Time, camel, decode, decode_leniently, decode_or_explain, encode
from rackspan.api.racktopology import RackTopologyStatus


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Inner(ApiStruct, frozen=True):
    level: str
    max_skew: int = 1


class Outer(ApiStruct, frozen=True):
    name: str = "a"
    count: int | None = None
    from_: Colour = Colour.RED
    is_on: bool = True
    when: Time | None = None
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()
    config: Mapping[str, int | str] = msgspec.field(default_factory=dict)


FULL = {
    "name": "b",
    "count": 3,
    "from": "Blue",
    "isOn": False,
    "when": "2026-01-31T12:00:00Z",
    "inner": {"level": "zone", "maxSkew": 2},
    "inners": [{"level": "rack", "maxSkew": 1}],
    "rows": [[1, 2], []],
    "config": {"retention.ms": 1, "cleanup.policy": "compact"},
}


def test_encode_returns_the_decoded_data():
    assert encode(decode(Outer, FULL, "spec")) == FULL


def test_absent_and_null_keys_take_the_default():
    assert decode(Outer, {"name": None}, "spec") == Outer()


def test_unknown_keys_are_ignored():
    assert decode(Outer, {"name": "b", "newer": {"x": 1}}, "spec") == Outer(name="b")


def test_none_is_encoded_as_an_absent_key():
    assert encode(Inner("zone")) == {"level": "zone", "maxSkew": 1}
    assert "count" not in encode(Outer())


def test_times_are_written_in_utc():
    noon_in_paris = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1)))
    assert encode(Outer(when=noon_in_paris))["when"] == "2026-01-31T11:00:00Z"


@pytest.mark.parametrize(
    "text", ["2026-01-31T11:00:00Z", "2026-01-31T12:00:00+01:00", "2026-01-31T11:00:00", "2026-01-31 11:00Z"]
)
def test_times_are_read_in_utc(text):
    assert decode(Outer, {"when": text}, "").when == datetime(2026, 1, 31, 11, tzinfo=UTC)


def test_nested_null_of_a_field_is_an_absent_key():
    data = {"inner": {"level": "zone", "maxSkew": None}, "config": {1: "a"}}
    assert decode(Outer, data, "spec") == Outer(inner=Inner("zone"), config={"1": "a"})
    with pytest.raises(SpecError, match=r"spec\.inner\.level is required"):
        decode(Outer, {"inner": {"level": None}}, "spec")
    with pytest.raises(SpecError, match=r"spec\.config\[a\] must be a whole number or a string, not None"):
        decode(Outer, {"config": {"a": None}}, "spec")


def test_any_mapping_can_be_decoded():
    frozen = MappingProxyType({**FULL, "inner": MappingProxyType(FULL["inner"])})
    assert decode(Outer, frozen, "spec") == decode(Outer, FULL, "spec")
    assert decode_leniently(Outer, MappingProxyType({**FULL, "count": "x"})).name == "b"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"name": 1}, "spec.name must be a string, not 1."),
        ({"count": "3"}, "spec.count must be a whole number, not '3'."),
        ({"count": True}, "spec.count must be a whole number, not True."),
        ({"count": 2.0}, "spec.count must be a whole number, not 2.0."),
        ({"isOn": "yes"}, "spec.isOn must be true or false, not 'yes'."),
        ({"from": "Green"}, "spec.from must be one of Red, Blue, not 'Green'."),
        ({"from": ["Red"]}, "spec.from must be one of Red, Blue, not ['Red']."),
        ({"from": "\ud800"}, "spec.from must be one of Red, Blue, not '\\ud800'."),
        ({"when": "noon"}, "spec.when must be a time such as 2026-01-31T12:00:00Z, not 'noon'."),
        ({"inner": []}, "spec.inner must be an object, not []."),
        ({"inner": {}}, "spec.inner.level is required."),
        ({"inners": {}}, "spec.inners must be a list, not {}."),
        ({"inners": [{"level": "zone"}, {"maxSkew": 1}]}, "spec.inners[1].level is required."),
        ({"rows": [[1], [2, None]]}, "spec.rows[1][1] must be a whole number, not None."),
        ({"rows": "12"}, "spec.rows must be a list, not '12'."),
        ({"config": {"a": False}}, "spec.config[a] must be a whole number or a string, not False."),
        ({"config": []}, "spec.config must be an object, not []."),
        ("text", "spec must be an object, not 'text'."),
    ],
)
def test_error_names_the_field_and_the_expected_value(data, sentence):
    with pytest.raises(SpecError) as caught:
        decode(Outer, data, "spec")
    assert str(caught.value) == sentence
    assert sentence == f"{caught.value.path} {caught.value.message}"


def test_error_with_long_input_is_short():
    with pytest.raises(SpecError) as caught:
        decode(Outer, {"count": "9" * 10_000}, "spec")
    assert len(str(caught.value)) < 200


def test_decode_leniently_keeps_the_valid_fields():
    assert decode_leniently(Outer, {**FULL, "count": "three", "inners": 7, "newer": "\ud800"}) == decode(
        Outer, {key: value for key, value in FULL.items() if key not in ("count", "inners")}, "status"
    )


@pytest.mark.parametrize("data", [None, [], "x", 3])
def test_decode_leniently_returns_the_defaults_for_anything_but_an_object(data):
    assert decode_leniently(Outer, data) == Outer()


def test_keys_are_in_camel_case():
    assert [camel(name) for name in ("min_in_sync_replicas", "id", "from_")] == ["minInSyncReplicas", "id", "from"]


_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_json = st.recursive(_scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(st.dictionaries(st.sampled_from(sorted(FULL)), _json) | _json)
def test_decode_of_any_json_succeeds_or_raises_spec_error(data):
    try:
        read = decode(Outer, data, "spec")
    except SpecError:
        return
    assert decode(Outer, encode(read), "spec") == read


_near = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text() | st.none(),
        "count": st.integers() | st.none(),
        "from": st.sampled_from(["Red", "Blue", None]),
        "isOn": st.booleans(),
        "when": st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
        "inner": st.fixed_dictionaries({"level": st.text()}, optional={"maxSkew": st.integers() | st.none()}),
        "rows": st.lists(st.lists(st.integers())),
        "config": st.dictionaries(st.text(), st.integers() | st.text() | st.none()),
    },
)


@given(_near | st.dictionaries(st.sampled_from(sorted(FULL)), _json))
def test_decode_or_explain_agrees_with_msgspec(data):
    """If msgspec accepts the data, `decode_or_explain` returns the same value."""
    try:
        quick = msgspec.convert(data, Outer)
    except msgspec.ValidationError:
        return
    assert decode_or_explain(Outer, data, "spec") == quick


@given(_near | st.dictionaries(st.sampled_from(sorted(FULL)), _json))
def test_decode_leniently_drops_exactly_the_invalid_fields(data):
    expected = {}
    for key, value in data.items():
        try:
            decode(Outer, {key: value}, "status")
        except SpecError:
            continue
        expected[key] = value
    assert decode_leniently(Outer, data) == decode(Outer, expected, "status")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59Z"),
        ("0987-06-05T04:03:02.9+01:00", "0987-06-05T03:03:02Z"),
    ],
)
def test_status_with_extreme_times_can_be_encoded(text, written):
    assert RackTopologyStatus.from_dict({"scans": {"nextAt": text}}).to_dict()["scans"] == {"nextAt": written}
