"""docs/reference/bad-input.md: every row names an existing test, and every test with a promise has a row."""

import ast
import re

import pytest
from dev.paths import REPOSITORY
from tests.crds.cases import CASES
from tests.crds.test_bad_input import test_schema_rejects_an_invalid_value_with_its_field_and_the_reason as schema_test
from tests.support.bad_input_page import rows

ROWS = list(rows())
API_SERVER = [row for row in ROWS if row.says == "422 Invalid"]


def test_page_has_rows():
    assert len(ROWS) > 50
    assert API_SERVER


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_row_names_an_existing_test(row):
    path, name = row.test.split("::")
    body = ast.parse((REPOSITORY / path).read_text()).body
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name.partition("[")[0] in functions


@pytest.mark.parametrize("row", API_SERVER, ids=lambda row: row.what)
def test_api_server_message_of_a_row_matches_a_validation_rule(row):
    sentences = [case.sentence or case.rule.message for case in CASES]
    (parameters,) = [mark.args[1] for mark in schema_test.pytestmark if mark.name == "parametrize"]
    by_schema = [(field, words) for _, _, field, words in parameters]
    assert any(row.fits(sentence) for sentence in sentences) or any(
        row.sentence.startswith(field) and words in row.sentence for field, words in by_schema
    )


def test_every_test_with_the_promise_fixture_has_a_row():
    named = {row.test.partition("[")[0] for row in ROWS}
    promising = {
        f"{path.relative_to(REPOSITORY)}::{name}"
        for path in (REPOSITORY / "tests" / "integration").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\([^)]*\bpromise\b", path.read_text(), re.MULTILINE)
    }
    assert promising - named == set()
