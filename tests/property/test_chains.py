"""Balancing along chains of hand-overs, compared with a simple search for one chain at a time."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.property.cases import counted

from rackspan.core.placement.engine.balance.augmenting_paths import level
from rackspan.core.topology import IntArray

BROKERS = st.integers(2, 8)


@dataclass
class Items:
    """Each item is on one of the brokers that could hold it. `other` is load on the brokers that cannot be moved."""

    choices: list[list[int]]
    holders: list[int]
    load: IntArray

    @classmethod
    def of(cls, choices, other):
        holders = [brokers[0] for brokers in choices]
        return cls(choices, holders, np.array(other) + np.bincount(holders, minlength=len(other)))

    @property
    def involved(self):
        return np.ones(len(self.load), dtype=bool)

    def handovers(self, givers, takers, _lacks):
        found = [
            (item, slot, broker)
            for item, brokers in enumerate(self.choices)
            if givers[self.holders[item]]
            for slot, broker in enumerate(brokers)
            if takers[broker]
        ]
        return tuple(np.array(found, dtype=np.int64).reshape(-1, 3).T)

    def holder(self, item, _slot):
        return self.holders[item]

    def hand_over(self, item, slot, taker):
        assert self.choices[item][slot] == taker
        self.holders[item] = taker


def reachable(choices, holders, start):
    """Return the brokers that chains from `start` reach, nearest first, and the item and giver that reach each."""
    came_by, queue = {start: None}, [start]
    for broker in queue:
        for item, brokers in enumerate(choices):
            new = [taker for taker in brokers if holders[item] == broker and taker not in came_by]
            came_by.update(dict.fromkeys(new, (item, broker)))
            queue += new
    return queue, came_by


def chain_by_chain(choices, other):
    """Return the loads when no chain leads from any broker to one with at least two items fewer."""
    holders, load = [brokers[0] for brokers in choices], list(other)
    for holder in holders:
        load[holder] += 1
    start = 0
    while start < len(load):
        queue, came_by = reachable(choices, holders, start)
        end = min(queue, key=load.__getitem__)
        if load[start] < load[end] + 2:
            start += 1
            continue
        load[start], load[end] = load[start] - 1, load[end] + 1
        while came_by[end] is not None:
            item, giver = came_by[end]
            holders[item], end = end, giver
        start = 0
    return sorted(load)


@given(st.data())
def test_level_makes_loads_as_even_as_one_chain_at_a_time(data):
    brokers = data.draw(BROKERS)
    other = data.draw(st.lists(st.integers(0, 12), min_size=brokers, max_size=brokers))
    choice = st.lists(st.integers(0, brokers - 1), min_size=1, max_size=3, unique=True)
    choices = data.draw(st.lists(choice, max_size=40))
    graph = Items.of(choices, other)
    level(graph)
    held = np.array(other) + np.bincount(graph.holders, minlength=brokers)
    assert held.tolist() == graph.load.tolist()
    assert sorted(graph.load.tolist()) == chain_by_chain(choices, other)
    counted()
