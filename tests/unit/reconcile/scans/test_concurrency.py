"""Limits of concurrent scans: no namespace blocks another, and the longest waiting scan starts first."""

from datetime import UTC, datetime, timedelta

import pytest

from rackspan.api.meta import ObjectKey
from rackspan.reconcile.scans.scan_decision import PendingScan, admitted

NOW = datetime(2026, 1, 31, 3, tzinfo=UTC)


def key(name):
    return ObjectKey(*name.split("/"))


def waiting(name, minutes=0, *, trusted=False, replaces=False):
    return PendingScan(key(name), NOW - timedelta(minutes=minutes), trusted, replaces)


def chosen(due, running=(), *, most=2, per_namespace=2):
    return {str(one) for one in admitted(due, [key(name) for name in running], most, per_namespace)}


def test_scans_within_the_limits_start_at_once():
    assert chosen([waiting("a/x"), waiting("b/x")]) == {"a/x", "b/x"}


def test_scan_that_has_waited_longest_starts_first():
    assert chosen([waiting("a/x", 1), waiting("b/x", 3), waiting("c/x", 2)], most=1) == {"b/x"}


def test_namespace_with_many_topologies_does_not_block_another():
    many = [waiting(f"a/{number}", 60) for number in range(500)]
    assert chosen([*many, waiting("b/x")]) == {"a/0", "b/x"}
    assert chosen([*many, waiting("b/x")], ["a/500"]) == {"b/x"}


def test_limit_per_namespace_does_not_apply_to_trusted_namespaces():
    many = [waiting(f"a/{number}") for number in range(4)]
    assert len(chosen(many, most=4)) == 2
    assert len(chosen([waiting(f"a/{number}", trusted=True) for number in range(4)], most=4)) == 4


def test_no_scan_starts_if_the_limit_is_reached():
    assert chosen([waiting("a/x")], ["b/x", "c/x"]) == set()


@pytest.mark.parametrize("per_namespace", [1, 2])
def test_scan_that_replaces_a_running_scan_needs_no_free_place(per_namespace):
    again = waiting("a/x", replaces=True)
    assert chosen([again], ["a/x", "b/x"], per_namespace=per_namespace) == {"a/x"}
    assert chosen([again, waiting("c/x")], ["a/x", "b/x"]) == set(), (
        "else the place of the replaced scan would never be free"
    )
