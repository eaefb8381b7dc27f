"""YAML files of users: documents are read separately, and errors have their line."""

import pytest

from rackspan.imports import yaml_nodes
from rackspan.imports.manifest_documents import ManifestFieldError, read_documents
from rackspan.imports.yaml_nodes import Fields, Scalar, Sequence


def read(text):
    return read_documents(text.encode(), "t.yaml")


def only(text):
    (found,) = read(text).found
    return found[1]


def test_invalid_document_does_not_hide_the_next():
    found = read("a: 1\n---\nb: [\n---\n# a comment\n---\n\nc: 3\n")
    assert [(source.line, list(part.fields.of)) for source, part in found.found] == [(1, ["a"]), (8, ["c"])]
    assert [(one.source.line, one.reason) for one in found.unread] == [
        (3, "is not YAML: did not find expected node content while parsing a flow node")
    ]


def test_list_of_objects_is_split_into_its_items():
    found = read('{"kind": "List", "items": [\n{"a": 1},\n{"b": 2}]}')
    assert [(source.line, list(part.fields.of)) for source, part in found.found] == [(2, ["a"]), (3, ["b"])]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# nothing\n",
        "---\n---\n",
        "---\n# only this\n...\n",
        "~\n",
        "%YAML 1.2\n---\n",
        "\n" * 40,
        " \t\n" * 40,
    ],
)
def test_text_without_content_has_no_documents(text):
    assert read(text).found == ()
    assert read(text).unread == ()


@pytest.mark.parametrize("line", ["\n", "  \n", "# \n", " \n\n#\n"])
def test_line_number_is_right_after_many_lines_without_content(line):
    found = read(line * 10_000 + "a: 1\n")
    assert [source.line for source, _ in found.found] == [line.count("\n") * 10_000 + 1]


LAUGHS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""10 * 10 * 10 ... values, by aliases."""
DEEP = "".join(f"{name}: &{name} {'[' * 90}{inner}{']' * 90}\n" for name, inner in [("a", "1"), ("b", "*a")])


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 'the key "a" is given twice'),
        ("a:\n  - b: 1\n    b: 2\n", 3, 'the key "b" is given twice'),
        ("- a\n", 1, "an object is a mapping, not a list"),
        ("a\n", 1, 'an object is a mapping, not "a"'),
        ("a: *b\n", 1, 'there is no anchor "b" that is complete before its alias'),
        ("a: &b [*b]\n", 1, 'there is no anchor "b" that is complete before its alias'),
        ("a: !python/object:os.system x\n", 1, 'the tag "!python/object:os.system" is not known'),
        ("\n\na: !Ref {b: 1}\n", 3, 'the tag "!Ref" is not known'),
        ("? [a]\n: 1\n", 1, "a key is a list or a mapping, not a text"),
        ("a: 1\n<<: 3\n", 2, "<< merges mappings only"),
        ("a: b: c\n", 1, "is not YAML: mapping values are not allowed in this context"),
        ("kind: List\nitems: [1]\n", 2, 'an object is a mapping, not "1"'),
        ("a: \x07\n", 1, "is not YAML: "),
        ("a: " + "[" * 200_000, 1, "is nested more than 100 deep"),
        ("- " * 200_000 + "a", 1, "is nested more than 100 deep"),
        (LAUGHS, 5, "has aliases that repeat more than 100,000 values"),
        (f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 100}]\n", 2, "has aliases that repeat more than 100,000 values"),
        (DEEP, 2, "is nested more than 100 deep"),
    ],
)  # fmt: skip
def test_error_in_yaml_has_its_line(text, line, said):
    found = read(text)
    assert found.found == ()
    assert [one.source.line for one in found.unread] == [line]
    assert found.unread[0].reason.startswith(said)


def test_the_limit_of_aliases_is_per_document():
    aliases = f"a: &a [{'1, ' * 999}1]\nb: [{', '.join(['*a'] * 90)}]\n"
    found = read(f"{aliases}---\n{aliases}")
    assert (len(found.found), found.unread) == (2, ())


def test_values_of_a_document_are_limited(monkeypatch):
    monkeypatch.setattr(yaml_nodes, "_MOST_NODES", 10)
    assert read("a: [1, 2, 3]\n---\na: [1, 2, 3, 4, 5, 6, 7, 8]\n").unread[0].reason == "holds more than 10 values"


def test_invalid_utf_8_is_an_error_with_its_line():
    found = read_documents(b"a: 1\nb: \xff\n", "t.yaml")
    assert [(one.source.line, one.reason) for one in found.unread] == [(2, "is not UTF-8")]


def test_anchors_and_merge_keys_are_resolved():
    part = only("x: &x {a: 1, b: 2}\nv: {<<: *x, b: 3}\nz: *x\nw: {<<: [*x, {c: 4}]}\n")
    texts = {key: {name: value.text for name, value in node.of.items()} for key, node in part.fields.of.items()}
    assert texts["v"] == {"b": "3", "a": "1"}
    assert texts["z"] == texts["x"]
    assert texts["w"] == {"a": "1", "b": "2", "c": "4"}
    assert isinstance(part.fields, Fields)


def test_windows_line_ends_and_a_byte_order_mark_are_accepted():
    found = read_documents("\ufeffa: 1\r\n---\r\nb: 2\r\n".encode(), "t.yaml")
    assert [source.line for source, _ in found.found] == [1, 3]


def test_json_values_have_their_lines_and_may_be_followed_by_yaml():
    found = read('{"a":\n1}\n{"b": "\\/"} {"c":\n {"d": 1}}\ne: [\n---\nf: 1\n')
    assert [(source.line, list(part.fields.of)) for source, part in found.found] == [
        (1, ["a"]),
        (3, ["b"]),
        (3, ["c"]),
        (7, ["f"]),
    ]
    assert [one.source.line for one in found.unread] == [5]
    assert found.found[1][1].text("b") == "/"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('{"a": 1, "a": 2}', 1, 'the key "a" is given twice'),
        ('{"a":\n"\\ud800"}', 2, "is not YAML: "),
        ('{"a": NaN', 1, "is not YAML: "),
        ('{"a": [' * 200_000, 1, "is nested more than 100 deep"),
        ('{"a": 1}\n}', 2, "is not YAML: "),
    ],
)
def test_error_in_json_has_its_line(text, line, said):
    (unread,) = read(text).unread
    assert unread.source.line == line
    assert unread.reason.startswith(said)


def test_many_json_values_in_a_file_have_their_lines():
    found = read('{"a": 1}\n' * 20_000)
    assert [source.line for source, _ in found.found] == list(range(1, 20_001))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda part: part.text("number"), 'number: must be a text, not "7"'),
        (lambda part: part.number("text", 0, 9), 'text: must be a whole number, not "x"'),
        (lambda part: part.number("number", 0, 6), 'number: must be from 0 to 6, not "7"'),
        (lambda part: part.part("list"), "list: must be a mapping, not a list"),
        (lambda part: part.items("part"), "part: must be a list, not a mapping"),
        (lambda part: part.part("part").text("inner"), "part.inner: must be a text, not a list"),
        (lambda part: part.spelling("list"), "list: must be a text, not a list"),
    ],
)
def test_field_of_the_wrong_type_is_an_error_with_its_path(ask, said):
    part = only("number: 7\ntext: x\nlist: [1]\npart: {inner: [2]}\nnone: ~\n")
    with pytest.raises(ManifestFieldError, match="must be") as caught:
        ask(part)
    assert str(caught.value) == said
    assert part.text("none") is None
    assert part.items("list") == (Scalar(3, "1", 1),)
    assert isinstance(part.node("list"), Sequence)
    assert part.beyond({"number", "text", "list"}) == ["part"]
