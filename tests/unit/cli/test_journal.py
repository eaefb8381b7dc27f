"""The journal of `rackspan apply`: it is read back unchanged, and other files are rejected."""

import asyncio
import fcntl
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


def test_journal_is_private_and_is_read_back_unchanged_until_it_is_discarded(journal):
    assert journal.read("prod") is None
    assert written(journal).read("prod") == RECORD
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    journal.discard()
    assert journal.read("prod") is None


def test_default_path_of_the_journal_has_the_cluster_id_and_rejects_an_unsafe_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert JournalFile.of_cluster("prod", None).path == tmp_path / "rackspan" / "reassignments" / "prod.json"
    with pytest.raises(CommandError, match="is not a file name"):
        JournalFile.of_cluster("../prod", None)


def test_missing_home_directory_is_an_error_with_a_hint_to_name_a_journal_file(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", no_home)
    with pytest.raises(CommandError, match="no home directory") as raised:
        JournalFile.of_cluster("prod", None)
    assert raised.value.hint == "say where with --journal FILE"


def test_truncated_journal_is_rejected_with_a_hint(journal):
    written(journal)
    journal.path.write_bytes(journal.path.read_bytes()[:50])
    with pytest.raises(CommandError, match="is not a journal of rackspan apply") as raised:
        journal.read("prod")
    assert "then delete it" in raised.value.hint


def test_journal_of_another_cluster_is_rejected(journal):
    with pytest.raises(CommandError, match="is of the cluster prod, and this one is test"):
        written(journal).read("test")


def test_failed_write_raises_an_error_and_keeps_a_valid_journal(journal, monkeypatch):
    written(journal)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CommandError, match="No space left"):
        written(journal)
    assert journal.read("prod") == RECORD


@pytest.mark.parametrize("name", ["journal.json", "journal.json.lock", "journal.json.new"])
@pytest.mark.parametrize("exists", [True, False])
def test_journal_does_not_follow_symbolic_links(journal, tmp_path, name, exists):
    """In a directory where others may write, such as /tmp, another user creates a link before the journal exists."""
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
def test_journal_that_is_a_pipe_or_belongs_to_another_user_is_rejected(journal, tmp_path, monkeypatch, name, kind):
    if kind == "a pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).write_text("{}")
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    opened = journal.locked().__enter__ if name.endswith(".lock") else lambda: journal.read("prod")
    with pytest.raises(CommandError, match=f"{name}: is not your file"):
        opened()


def test_journal_in_a_world_writable_directory_without_sticky_bit_is_rejected(journal, tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(CommandError, match="everybody may replace files there"), journal.locked():
        pass
    tmp_path.chmod(0o1777)
    with journal.locked():
        assert written(journal).read("prod") == RECORD


def test_default_directory_and_files_of_the_journal_are_private(tmp_path, monkeypatch):
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


def test_failed_write_where_possible_raises_no_error_and_keeps_a_valid_journal(journal, monkeypatch):
    written(journal)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    asyncio.run(journal.where_possible().write(RECORD))
    assert journal.read("prod") == RECORD


def test_journal_is_locked_by_one_command_at_a_time(journal):
    with journal.locked(), pytest.raises(CommandError, match="another rackspan apply is running"), journal.locked():
        pass
    with journal.locked():
        pass


def test_journal_is_locked_although_another_command_looks_at_the_lock_at_that_moment(journal, monkeypatch):
    with journal.locked():
        pass
    looking = (journal.path.parent / "journal.json.lock").open()
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("time.sleep", lambda _: looking.close())
    with journal.locked():
        assert looking.closed


@pytest.mark.parametrize(
    "change",
    [
        {"version": None},
        {"version": "2"},
        {"clusterId": 5},
        {"changes": {"orders": [[0, [1]]]}},
        {"changes": {"orders": [["0", [1], [2], None]]}},
        {"changes": []},
        {"throttles": [["nobody", "0", "key", None, ["1"]]]},
        {"started": [["orders", 0, "12"]]},
        {"racks": {"x": None}},
    ],
)
def test_journal_with_an_invalid_field_is_rejected(journal, change):
    document = json.loads(written(journal).path.read_text())
    journal.path.write_text(json.dumps({**document, **change}))
    with pytest.raises(CommandError, match="is not a journal"):
        journal.read("prod")


@pytest.mark.parametrize("change", [{}, {"throttles": [["broker", "0", "key", None, ["1"], "new"]]}, {"racks": [0]}])
def test_journal_of_another_version_is_to_be_finished_with_that_version_and_not_to_be_deleted(journal, change):
    document = json.loads(written(journal).path.read_text())
    journal.path.write_text(json.dumps({**document, **change, "version": 2}))
    with pytest.raises(CommandError, match=r"another version of Rackspan wrote it$") as raised:
        journal.read("prod")
    assert raised.value.hint == "finish or cancel the plan with that version"


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "\x00"])
def test_file_that_is_not_a_journal_is_rejected(journal, text):
    journal.path.write_text(text)
    with pytest.raises(CommandError, match="is not a journal"):
        journal.read("prod")
