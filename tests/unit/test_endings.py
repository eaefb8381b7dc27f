"""Servers that tests share end as soon as no later test needs them."""

from dev.paths import REPOSITORY
from tests.support.endings import Endings
from tests.support.folders import LAST_WITH_SERVERS, ORDER, SERVERLESS


def test_resources_of_a_folder_end_when_a_test_of_a_later_folder_begins():
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


def test_all_ends_earlier_folders_first_and_the_last_resource_of_a_folder_first():
    told = []
    endings = Endings()
    endings.after(LAST_WITH_SERVERS).callback(told.append, "the control plane")
    endings.after(LAST_WITH_SERVERS).callback(told.append, "a namespace")
    endings.after("secure").callback(told.append, "brokers")
    endings.all()
    endings.all()
    assert told == ["brokers", "a namespace", "the control plane"]


def test_resources_of_secure_end_after_the_last_file_that_uses_them():
    endings, told = Endings(), []
    endings.after("secure").callback(told.append, "brokers")
    endings.before("tests/integration/test_cli.py::test_it")
    assert told == []
    endings.before("tests/integration/test_apply.py::test_it")
    assert told == ["brokers"]


def test_every_folder_of_tests_is_in_the_order():
    assert {path.parent.name for path in (REPOSITORY / "tests").glob("*/test_*.py")} <= set(ORDER)
