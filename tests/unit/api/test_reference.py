"""The reference pages match the CRDs and the reasons."""

import runpy

import pytest
from dev.paths import REPOSITORY

from rackspan.api.reasons import Reason

FOLDER = REPOSITORY / "docs" / "reference"
PAGES = runpy.run_path(str(FOLDER / "generate.py"))["pages"]()


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_up_to_date(name):
    assert (FOLDER / name).read_text() == PAGES[name], "run: python docs/reference/generate.py"


def test_every_reason_has_a_meaning():
    assert [reason for reason in Reason if f"| `{reason}` | " not in PAGES["reasons.md"]] == []


def test_every_kind_has_a_page():
    assert {"kafkatopics.md", "racktopologies.md", "compliancereports.md", "reassignments.md"} <= PAGES.keys()
