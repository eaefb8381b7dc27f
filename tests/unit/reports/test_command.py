"""The commands `rackspan report open` and `rackspan report export`."""

import json
import os
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest
import yaml
from dev import example_scan
from tests.support.command import cli, cluster, topic

from rackspan.cli.shared.scan_files import write_file
from rackspan.reports.document import decode, encode


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scan.json"
    path.write_bytes(encode(example_scan.example()))
    return path


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """The addresses that were opened in a browser. Temporary files are in the folder of the test."""
    addresses = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda address: addresses.append(address) or True)
    return addresses


def test_open_opens_the_page_and_prints_its_path(file, opened):
    ran = cli("report", "open", file)
    assert ran.code == 0
    page = Path(ran.out.strip())
    assert opened == [page.as_uri()]
    assert page.read_text().startswith("<!doctype html>")


def test_open_without_a_browser_asks_the_user_to_open_the_file(file, opened, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda _address: False)
    ran = cli("report", "open", file)
    assert ran.code == 0
    assert "open the file yourself" in ran.err
    assert Path(ran.out.strip()).exists()


def test_export_writes_the_page_and_prints_json(file, tmp_path):
    ran = cli("report", "export", file, "--page", tmp_path / "scan.html", "-o", "json")
    assert ran.code == 0
    assert decode(ran.out) == example_scan.example()
    assert "kafka/main" in (tmp_path / "scan.html").read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_export_writes_the_page_through_a_symbolic_link_and_to_a_pipe(file, tmp_path):
    page, link, pipe, read = (tmp_path / name for name in ("scan.html", "link", "pipe", "read"))
    link.symlink_to(page)
    assert cli("report", "export", file, "--page", link).code == 0
    assert link.is_symlink()
    os.mkfifo(pipe)
    with read.open("wb") as copy, subprocess.Popen(["cat", pipe], stdout=copy) as reader:
        assert cli("report", "export", file, "--page", pipe).code == 0
        assert reader.wait(timeout=30) == 0
    assert pipe.is_fifo()
    assert read.read_text() == page.read_text()


def test_two_commands_that_write_one_page_at_once_both_write_all_of_it(file, tmp_path, monkeypatch):
    page, replace = tmp_path / "scan.html", Path.replace

    def replaced(scratch, target):
        monkeypatch.setattr(Path, "replace", replace)
        write_file(page, "of the second command")
        assert page.read_text() == "of the second command"
        return scratch.replace(target)

    monkeypatch.setattr(Path, "replace", replaced)
    write_file(page, "of the first command")
    assert page.read_text() == "of the first command"
    assert {path.name for path in tmp_path.iterdir()} == {"scan.html", "scan.json"}


@pytest.mark.parametrize(
    "line",
    [
        "scan --synthetic 10 --report full",
        "report export scan.json --page full",
        "import cluster --snapshot prod.json --topology-ref main --output-dir . --overwrite",
    ],
)
def test_full_disk_below_a_written_file_gives_exit_code_74_and_names_the_file(file, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prod.json").write_text(json.dumps(cluster(topic("full", [0, 1]))))
    for name in ("full", "full.yaml"):
        (tmp_path / name).symlink_to("/dev/full")
    ran = cli(*line.split())
    assert (ran.code, ran.error) == (74, f"full{'.yaml' * ('import' in line)}: No space left on device")


@pytest.mark.parametrize(
    "line",
    ["report fleet scan.json --pages there", "import cluster --snapshot prod.json --topology-ref a --output-dir there"],
)
def test_folder_that_is_a_file_is_an_error_that_says_so(file, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prod.json").write_text(json.dumps(cluster(topic("a", [0, 1]))))
    (tmp_path / "there").touch()
    ran = cli(*line.split())
    assert (ran.code, ran.error) == (2, "there: is not a directory")


def test_interrupted_write_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "scan.html", "all of it")
    assert list(tmp_path.iterdir()) == []


def test_export_of_standard_input_prints_yaml_markdown_and_csv(file):
    text = file.read_text()
    assert yaml.safe_load(cli("report", "export", "-", "-o", "yaml", stdin=text).out) == json.loads(text)
    assert cli("report", "export", "-", "-o", "markdown", stdin=text).out.startswith("# kafka/main")
    assert cli("report", "export", "-", "-o", "csv", stdin=text).out.startswith("id,rule,severity")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", "scan.json: no scan document: Input data was truncated"),
        ('{"schema": "rackspan.dev/scan/v9"}', "scan.json: no scan document: Invalid value 'rackspan.dev/scan/v9'"),
        ("[]", "scan.json: no scan document: Expected `object`, got `array`"),
        (b"\xff\xfe", "scan.json: no scan document: "),
    ],
)
def test_invalid_scan_document_is_rejected(tmp_path, monkeypatch, content, error):
    monkeypatch.chdir(tmp_path)
    Path("scan.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    ran = cli("report", "export", "scan.json", "-o", "csv")
    assert ran.code == 2
    assert ran.error.startswith(error)
    assert ran.hint == "its schema has to be rackspan.dev/scan/v1"


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("", "scan.json: is empty", ""),
        (
            json.dumps(cluster(topic("orders", [0, 1]))),
            "scan.json: is a snapshot and no scan document",
            "rackspan scan --snapshot scan.json --report FILE writes one",
        ),
    ],
)
def test_file_in_place_of_a_scan_document_is_named_for_what_it_is(tmp_path, monkeypatch, text, error, hint):
    monkeypatch.chdir(tmp_path)
    Path("scan.json").write_text(text)
    ran = cli("report", "export", "scan.json", "-o", "json")
    assert (ran.code, ran.error, ran.hint) == (2, error, hint)


def test_hint_for_a_snapshot_can_be_copied_into_a_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = json.dumps(cluster(topic("orders", [0, 1])))
    Path("my scan.json").write_text(text)
    ran = cli("report", "export", "my scan.json", "-o", "json")
    assert ran.hint == "rackspan scan --snapshot 'my scan.json' --report FILE writes one"
    ran = cli("report", "export", "-", "-o", "json", stdin=text)
    assert (ran.error, ran.hint) == ("standard input: is a snapshot and no scan document", "")


def test_unreadable_file_unwritable_page_or_missing_output_is_an_error(file, tmp_path):
    assert cli("report", "open", tmp_path / "none.json").error.endswith("none.json: there is no such file")
    ran = cli("report", "export", file, "--page", tmp_path / "none" / "scan.html")
    assert (ran.code, ran.error.endswith("scan.html: No such file or directory")) == (2, True)
    ran = cli("report", "export", file)
    assert (ran.code, ran.error) == (2, "say what to write")


def test_export_of_a_page_without_bokeh_names_the_package_to_install(file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    for name in [name for name in sys.modules if name.startswith("rackspan.reports.page.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("rackspan.reports.page.rendering", raising=False)
    for name in [name for name in sys.modules if name.startswith("bokeh.")]:
        monkeypatch.setitem(sys.modules, name, None)
    ran = cli("report", "export", file, "--page", tmp_path / "scan.html")
    assert (ran.code, ran.error) == (2, "the page of a scan is drawn with Bokeh, which is not installed")
    assert ran.hint == "pip install 'rackspan[page]'"
    assert cli("report", "export", file, "-o", "csv").code == 0


@pytest.mark.parametrize("command", [("open",), ("export", "-o", "json")], ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        ((), "say which scan", "name a FILE, or --history DIR"),
        (
            ("scan.json", "--history", "h"),
            "say which scan: only one of FILE and --history can be used",
            "leave one of them out",
        ),
        (("scan.json", "--scan-id", "one"), "--cluster and --scan-id are for --history", ""),
    ],
)
def test_missing_or_conflicting_scan_arguments_are_an_error(command, arguments, sentence, hint):
    ran = cli("report", *command, *arguments)
    assert (ran.code, ran.error, ran.hint, ran.out) == (2, sentence, hint, "")
