"""The tests that docs/security.md and docs/reference/attacks.md name exist."""

import ast
import re

import pytest
from dev.paths import REPOSITORY

SECURITY, ATTACKS = ((REPOSITORY / "docs" / name).read_text() for name in ("security.md", "reference/attacks.md"))
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+\.py)(?:::(test_\w+))?`", SECURITY + ATTACKS)))


@pytest.mark.parametrize(("file", "test"), NAMED, ids=lambda part: part)
def test_tests_named_in_the_security_pages_exist(file, test):
    tree = ast.parse((REPOSITORY / file).read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert any(name.startswith("test_") for name in functions)
    assert not test or test in functions


def test_every_row_of_the_attacks_page_names_a_test():
    tried = ATTACKS.partition("\n## A hostile tenant\n")[2]
    rows = [line for line in tried.splitlines() if line.startswith("| ") and not line.startswith("| what is tried")]
    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row] == []
