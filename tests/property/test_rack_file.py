"""`rackspan rack-id` reads the racks that the operator publishes, for any node and any rack id."""

import shlex

import javaproperties
from hypothesis import given
from hypothesis import strategies as st

from rackspan.core.rack_file import RackFileError, rack_file, rack_of
from rackspan.core.rack_path import RackPathError, parse_rack
from rackspan.rack_id import formatted

NODES = st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
STEPS = st.text(min_size=1, max_size=8).filter(lambda step: step.isprintable() and not set(step) & {" ", "/"})
RACKS = st.lists(STEPS, min_size=1, max_size=5).map(lambda steps: "/" + "/".join(steps))


@given(st.dictionaries(NODES, RACKS, max_size=8), NODES, st.text(max_size=30))
def test_rack_file_gives_every_node_its_own_rack(racks, other, title):
    text = rack_file(racks, title)
    assert {node: rack_of(text, node) for node in racks} == racks
    assert rack_of(text, other) == racks.get(other)


@given(st.text(max_size=60), NODES)
def test_any_rack_file_gives_a_rack_id_or_none_or_an_error_with_the_line(text, node):
    wrong, found = "line 1", None
    try:
        found = rack_of(text, node)
    except RackFileError as error:
        wrong = str(error)
    assert wrong.startswith("line ")
    assert found is None or parse_rack(found)


@given(RACKS)
def test_formatted_rack_is_read_by_java_properties_and_by_a_shell(rack):
    assert javaproperties.loads(formatted(rack, "properties", None).encode("latin-1")) == {"broker.rack": rack}
    assert shlex.split(formatted(rack, "env", "RACK")) == [f"RACK={rack}"]
    assert formatted(rack, "plain", None) == rack


@given(st.text(max_size=30))
def test_formatted_rack_is_always_one_line(text):
    try:
        parse_rack(text)
    except RackPathError:
        return
    for form in ("plain", "properties", "env"):
        assert len(formatted(text, form, None).splitlines()) == 1
