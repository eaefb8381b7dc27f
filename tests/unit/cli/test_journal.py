"""The journal of `rackspan apply`: what was written comes back, and nothing else is taken for it."""

import asyncio
import json
import os
import stat

import pytest

from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.journal_file import JournalFile
from rackspan.core.planning import Change
from rackspan.core.reassignment import SetThrottle, Setting, SettingKind, TopicPartition
from rackspan.reconcile.ports import Record

RECORD = Record(
    "prod",
    "0123456789abcdef",
    (Change("orders", 0, (3, 1), (0, 1), 100), Change("orders", 1, (1, 0), (0, 1), None)),
    {0: ("eu", "a"), 1: None},
    {0: "/eu/a", 1: None},
    {TopicPartition("orders", 0): (0, 1, 3)},
    {
        Setting(SettingKind.BROKER, "0", "leader.replication.throttled.rate"): SetThrottle(None, ("1", "2")),
        Setting(SettingKind.TOPIC, "orders", "follower.replication.throttled.replicas"): SetThrottle("*", ("*",)),
    },
    {"orders": "p0VyNZMmTOuKQ4q8kWZzXA"},
)


@pytest.fixture
def journal(tmp_path):
    return JournalFile.of_cluster("prod", tmp_path / "journal.json")


def written(journal, record=RECORD):
    asyncio.run(journal.write(record))
    return journal


def test_what_was_written_comes_back(journal):
    assert journal.read("prod") is None
    assert written(journal).read("prod") == RECORD
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    journal.discard()
    assert journal.read("prod") is None


def test_it_is_found_again_by_the_clusters_id(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert JournalFile.of_cluster("prod", None).path == tmp_path / "rackspan" / "reassignments" / "prod.json"
    with pytest.raises(CommandError, match="is not a file name"):
        JournalFile.of_cluster("../prod", None)


def test_who_has_no_home_names_a_file(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", no_home)
    with pytest.raises(CommandError, match="no home directory") as raised:
        JournalFile.of_cluster("prod", None)
    assert raised.value.hint == "say where with --journal FILE"


def test_a_journal_that_was_cut_off_says_what_to_do(journal):
    written(journal)
    journal.path.write_bytes(journal.path.read_bytes()[:50])
    with pytest.raises(CommandError, match="is not a journal of rackspan apply") as raised:
        journal.read("prod")
    assert "then delete it" in raised.value.hint


def test_another_clusters_journal_is_refused(journal):
    with pytest.raises(CommandError, match="is of the cluster prod, and this one is test"):
        written(journal).read("test")


def test_a_write_that_does_not_end_leaves_the_last_one(journal, monkeypatch):
    written(journal)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CommandError, match="No space left"):
        written(journal)
    assert journal.read("prod") == RECORD


@pytest.mark.parametrize("name", ["journal.json", "journal.json.lock", "journal.json.new"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_leads_nowhere(journal, tmp_path, name, exists):
    """In a folder where others may write, such as /tmp, somebody lays a link before the journal is there."""
    victim = tmp_path / "victim"
    if exists:
        victim.write_text("mine")
    (tmp_path / name).symlink_to(victim)
    if name.endswith(".new"):
        with journal.locked():
            assert written(journal).read("prod") == RECORD
    else:
        with pytest.raises(CommandError, match=f"{name}: is a symbolic link"), journal.locked():
            journal.read("prod")
    assert victim.exists() == exists
    assert not exists or victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["journal.json", "journal.json.lock"])
@pytest.mark.parametrize("kind", ["a pipe", "somebody else's"])
def test_what_is_no_file_of_ones_own_is_refused(journal, tmp_path, monkeypatch, name, kind):
    if kind == "a pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).write_text("{}")
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    opened = journal.locked().__enter__ if name.endswith(".lock") else lambda: journal.read("prod")
    with pytest.raises(CommandError, match=f"{name}: is not your file"):
        opened()


def test_a_folder_where_everybody_may_replace_files_is_refused(journal, tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(CommandError, match="everybody may replace files there"), journal.locked():
        pass
    tmp_path.chmod(0o1777)
    with journal.locked():
        assert written(journal).read("prod") == RECORD


def test_its_own_folder_and_files_are_private(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    journal = JournalFile.of_cluster("prod", None)
    with journal.locked():
        written(journal)
    folder = journal.path.parent
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]} == {
        "reassignments": 0o700,
        "prod.json": 0o600,
        "prod.json.lock": 0o600,
    }


def test_where_it_cannot_be_written_the_last_one_stays(journal, monkeypatch):
    written(journal)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    asyncio.run(journal.where_possible().write(RECORD))
    assert journal.read("prod") == RECORD


def test_two_commands_do_not_share_it(journal):
    with journal.locked(), pytest.raises(CommandError, match="another rackspan apply is running"), journal.locked():
        pass
    with journal.locked():
        pass


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"clusterId": 5},
        {"changes": {"orders": [[0, [1]]]}},
        {"changes": {"orders": [["0", [1], [2], None]]}},
        {"changes": []},
        {"throttles": [["nobody", "0", "key", None, ["1"]]]},
        {"started": [["orders", 0, "12"]]},
        {"racks": {"x": None}},
    ],
)
def test_what_is_no_journal_is_said_to_be_none(journal, change):
    document = json.loads(written(journal).path.read_text())
    journal.path.write_text(json.dumps({**document, **change}))
    with pytest.raises(CommandError, match="is not a journal"):
        journal.read("prod")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "\x00"])
def test_a_file_of_something_else_is_refused(journal, text):
    journal.path.write_text(text)
    with pytest.raises(CommandError, match="is not a journal"):
        journal.read("prod")
