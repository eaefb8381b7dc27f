"""Servers that tests share end when no later test needs them."""

from dev.paths import REPOSITORY
from tests.support.endings import Endings
from tests.support.folders import LAST_WITH_SERVERS, ORDER, SERVERLESS


def test_what_a_folder_shares_ends_when_the_next_one_begins():
    told = []
    endings = Endings()
    endings.after("chart").callback(told.append, "its servers")
    endings.after(LAST_WITH_SERVERS).callback(told.append, "all servers")
    endings.before("tests/chart/test_rights.py::test_it")
    assert told == []
    endings.before("tests/integration/test_drains.py::test_it")
    endings.before("tests/integration/test_drains.py::test_another")
    assert told == ["its servers"]
    endings.before(f"tests/{SERVERLESS[0]}/test_order.py::test_it")
    assert told == ["its servers", "all servers"]


def test_what_stands_on_something_ends_before_it_does():
    told = []
    endings = Endings()
    endings.after(LAST_WITH_SERVERS).callback(told.append, "the control plane")
    endings.after(LAST_WITH_SERVERS).callback(told.append, "a namespace")
    endings.after("secure").callback(told.append, "brokers")
    endings.all()
    endings.all()
    assert told == ["brokers", "a namespace", "the control plane"]


def test_files_that_share_brokers_are_a_folder_of_their_own():
    endings, told = Endings(), []
    endings.after("secure").callback(told.append, "brokers")
    endings.before("tests/integration/test_cli.py::test_it")
    assert told == []
    endings.before("tests/integration/test_apply.py::test_it")
    assert told == ["brokers"]


def test_every_folder_has_its_place():
    assert {path.parent.name for path in (REPOSITORY / "tests").glob("*/test_*.py")} <= set(ORDER)
