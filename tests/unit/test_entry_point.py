"""How the `rackspan` command starts."""

import gc
import sys

import pytest

from rackspan.__main__ import main


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield gc.get_threshold
    gc.set_threshold(*before)


def test_garbage_is_looked_for_much_less_often_than_by_default(thresholds, monkeypatch, capsys):
    gc.set_threshold(700, 10, 10)
    monkeypatch.setattr(sys, "argv", ["rackspan", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out
    assert thresholds()[0] > 700 * 50
    assert gc.isenabled()
