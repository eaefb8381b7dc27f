"""The benchmark of topics hears of them through watches that break."""

import json

from benchmarks.topics import events_of


def test_a_watch_is_over_with_an_error_whose_object_is_none_of_ours():
    lines = [
        {"type": "ADDED", "object": {"metadata": {"name": "a"}, "status": {"conditions": []}}},
        {"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}},
        {"type": "ADDED", "object": {"metadata": {"name": "b"}}},
    ]
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    chunks = [text[at : at + 7] for at in range(0, len(text), 7)]
    assert list(events_of(chunks)) == lines[:1]
    assert list(events_of([text.splitlines(keepends=True)[0]])) == lines[:1]
