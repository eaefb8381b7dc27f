"""The distribution of tests to the processes of a test run."""

from itertools import chain
from types import SimpleNamespace

import pytest
from tests.support.sharing import Sharing, SharingWithFiller

SERVED = [f"tests/integration/test_{name}.py::test_{number}" for name in "abc" for number in range(3)]
ALONE = [f"tests/property/test_laws.py::test_{number}" for number in range(4)] + [
    f"tests/unit/test_{name}.py::test_{number}" for name in "de" for number in range(2)
]


class Node:
    """A process that runs a test as soon as it has the next one, or is shutting down."""

    def __init__(self, number, tests):
        self.gateway, self.shutting_down = SimpleNamespace(id=f"gw{number}"), False
        self.ran, self._queue, self._tests = [], [], tests

    def send_runtest_some(self, indices):
        self._queue.extend(indices)

    def shutdown(self):
        self.shutting_down = True

    def step(self, scheduler):
        if len(self._queue) > (0 if self.shutting_down else 1):
            self.ran.append(self._tests[index := self._queue.pop(0)])
            scheduler.mark_test_complete(self, index)
            return True
        return False


def shared(kind, tests, count):
    nodes = [Node(number, tests) for number in range(count)]
    config = SimpleNamespace(
        option=SimpleNamespace(loadscopereorder=False), getvalue={"tx": [f"{count}*popen"], "maxprocesses": None}.get
    )
    scheduler = kind(config)
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    while sum(node.step(scheduler) for node in nodes):
        pass
    assert all(node.shutting_down for node in nodes)
    return [node.ran for node in nodes]


@pytest.mark.parametrize(
    ("kind", "count"), [(Sharing, 1), (Sharing, 2), (Sharing, 3), (SharingWithFiller, 2), (SharingWithFiller, 3)]
)
@pytest.mark.parametrize("tests", [SERVED + ALONE, SERVED, ALONE])
def test_every_test_runs_once_and_files_with_servers_stay_in_one_process(kind, count, tests):
    ran = shared(kind, tests, count)
    assert sorted(chain.from_iterable(ran)) == sorted(tests)
    for file in {test.partition("::")[0] for test in tests if test in SERVED}:
        assert sum(any(test.startswith(file) for test in one) for one in ran) == 1


@pytest.mark.parametrize("count", [2, 3])
def test_filler_process_runs_only_tests_without_servers(count):
    *others, filler = shared(SharingWithFiller, SERVED + ALONE, count)
    assert filler
    assert set(filler) <= set(ALONE)
    assert set(SERVED) <= set(chain.from_iterable(others))
