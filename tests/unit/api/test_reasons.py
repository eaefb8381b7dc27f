"""Reasons are part of the API."""

import re

from rackspan.api.reasons import Reason


def test_reasons_are_camel_case_words_that_the_api_accepts():
    pattern = re.compile(r"[A-Z][A-Za-z]*")
    assert [reason for reason in Reason if not pattern.fullmatch(reason)] == []


def test_a_reason_is_named_like_its_value():
    assert {reason.name.replace("_", "").lower() for reason in Reason} == {reason.lower() for reason in Reason}


def test_no_reason_is_there_twice():
    assert len(Reason) == len(Reason.__members__)
