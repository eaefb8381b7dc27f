"""`-o yaml`: a text is read back as text, also by readers of YAML 1.2."""

import re

import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.cases import counted

from rackspan.imports.yaml_text import yaml_text

_CORE = re.compile(
    r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)"
    r"|\.(nan|NaN|NAN)|null|Null|NULL|~|true|True|TRUE|false|False|FALSE|"
)
"""Plain scalars that are not text in the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2, 10.3.2)."""
TEXTS = st.from_regex(_CORE, fullmatch=True) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(TEXTS, TEXTS)
@example("hash", "96018685807532e2")
@example("topic", "1e3")
def test_text_is_read_as_text_by_readers_of_yaml_1_1_and_1_2(key, value):
    written = yaml_text({key: value})
    assert yaml.safe_load(written) == {key: value}
    plain = [one.value for one in yaml.scan(written) if isinstance(one, yaml.ScalarToken) and one.plain]
    assert not any(map(_CORE.fullmatch, plain))
    counted()
