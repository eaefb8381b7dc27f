"""What the operator publishes about nodes is what `rackspan rack-id` reads of it, for any node and any rack id."""

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
def test_every_node_reads_the_rack_that_was_written_for_it(racks, other, title):
    text = rack_file(racks, title)
    assert {node: rack_of(text, node) for node in racks} == racks
    assert rack_of(text, other) == racks.get(other)


@given(st.text(max_size=60), NODES)
def test_any_text_gives_a_rack_id_or_none_or_the_line_that_is_wrong(text, node):
    wrong, found = "line 1", None
    try:
        found = rack_of(text, node)
    except RackFileError as error:
        wrong = str(error)
    assert wrong.startswith("line ")
    assert found is None or parse_rack(found)


@given(RACKS)
def test_java_reads_the_property_and_a_shell_the_assignment(rack):
    assert javaproperties.loads(formatted(rack, "properties", None).encode("latin-1")) == {"broker.rack": rack}
    assert shlex.split(formatted(rack, "env", "RACK")) == [f"RACK={rack}"]
    assert formatted(rack, "plain", None) == rack


@given(st.text(max_size=30))
def test_what_is_printed_is_one_line_however_hostile_the_file(text):
    try:
        parse_rack(text)
    except RackPathError:
        return
    for form in ("plain", "properties", "env"):
        assert len(formatted(text, form, None).splitlines()) == 1
