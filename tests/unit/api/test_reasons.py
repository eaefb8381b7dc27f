"""Reasons are part of the API."""

import re

from rackspan.api.reasons import Reason


def test_reasons_are_camel_case_words_that_the_api_accepts():
    pattern = re.compile(r"[A-Z][A-Za-z]*")
    assert [reason for reason in Reason if not pattern.fullmatch(reason)] == []


def test_name_of_each_reason_matches_its_value():
    assert {reason.name.replace("_", "").lower() for reason in Reason} == {reason.lower() for reason in Reason}


def test_reasons_are_unique():
    assert len(Reason) == len(Reason.__members__)
