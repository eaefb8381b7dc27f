"""`rackspan report fleet`: the last scans of several clusters, the worst first, as a table, pages or JSON."""

import re
from datetime import UTC, datetime
from html import unescape

import msgspec
import pyarrow as pa
import pytest
import yaml
from dev import example_scan
from tests.support.command import cli

from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History, ScanEntry
from rackspan.reports.document import Day, encode
from rackspan.reports.page.fleet import fleet_rows
from rackspan.reports.page.fleet_page import sparkline

HOSTILE = "kafka/<script>alert(1)</script>/../../x"


def called(document, cluster, **fields):
    return msgspec.structs.replace(document, cluster=cluster, **fields)


SCANS = [
    called(example_scan.fine(), "kafka/a"),
    called(example_scan.example(), HOSTILE),
    called(example_scan.failed(), "kafka/c"),
    called(example_scan.example(), "kafka/b"),
]
ORDER = ["kafka/c", HOSTILE, "kafka/b", "kafka/a"]


@pytest.fixture
def files(tmp_path):
    paths = []
    for number, document in enumerate(SCANS):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_bytes(encode(document))
    return paths


@pytest.fixture
def history(tmp_path):
    """A history with two scans of each cluster. The first scan of each cluster has failed."""
    kept = History(str(tmp_path / "history"))
    for sequence in (1, 2):
        at = datetime(2026, 11, 20, sequence, tzinfo=UTC)
        for number, document in enumerate(SCANS):
            shown = document if sequence == 2 else called(example_scan.failed(), document.cluster)
            commit(
                kept,
                ScanEntry(document.cluster, f"scan-{sequence}", sequence, at, f"{number}-{sequence}"),
                encode(shown),
            )
    return tmp_path / "history"


def commit(history, entry, document):
    row = {"scan_id": entry.scan_id, "sequence": entry.sequence, "finished_at": entry.observed_at}
    history.writer(entry).commit(pa.Table.from_pylist([row], schema=TABLES["scans"]), [document])


def test_json_lists_the_worst_clusters_first(files):
    ran = cli("report", "fleet", *files, "-o", "json")
    assert ran.code == 0
    clusters = ran.json["clusters"]
    assert [one["cluster"] for one in clusters] == ORDER
    assert [one["worst"] for one in clusters] == ["failed", "critical", "critical", "fine"]
    assert clusters[0]["summary"] is None
    assert clusters[1]["summary"] == msgspec.to_builtins(SCANS[1].summary)
    assert clusters[1]["assessment"].startswith("3 of ")


def test_yaml_and_json_of_the_fleet_are_the_same_document(files):
    as_yaml, as_json = (cli("report", "fleet", *files, "-o", form) for form in ("yaml", "json"))
    assert yaml.safe_load(as_yaml.out) == as_json.json


def test_fleet_uses_the_last_of_two_scans_of_a_cluster():
    old = called(example_scan.failed(), "kafka/a", finished_at="2026-11-19T00:00:00Z")
    assert [row.assessment.tone for row in fleet_rows([SCANS[0], old])] == ["fine"]


def test_table_has_a_row_per_cluster_without_control_characters(files):
    ran = cli("report", "fleet", *files)
    assert ran.code == 0
    rows = {line.split()[0]: line for line in ran.out.splitlines() if line.startswith(" kafka/")}
    assert [rows[name].split()[1] for name in ("kafka/b", "kafka/a")] == ["critical", "fine"]
    assert "?" in rows["kafka/c"]
    assert "kafka-1:9092" in ran.out
    assert ran.out.replace("\n", "").isprintable()


def test_history_gives_the_last_scan_of_each_cluster(history):
    ran = cli("report", "fleet", "--history", history, "-o", "json")
    assert [(one["cluster"], one["worst"]) for one in ran.json["clusters"]] == list(
        zip(ORDER, ["failed", "critical", "critical", "fine"], strict=True)
    )


def test_damaged_document_does_not_hide_other_clusters(history):
    for cluster, document in {"kafka/a": b"{", "kafka/b": b'{"schema": "rackspan.dev/scan/v9"}'}.items():
        at = datetime(2026, 11, 20, 3, tzinfo=UTC)
        commit(History(str(history)), ScanEntry(cluster, "scan-3", 3, at, f"{cluster}-3"), document)
    clusters = cli("report", "fleet", "--history", history, "-o", "json").json["clusters"]
    assert {one["cluster"]: one["reason"] for one in clusters} == {
        "kafka/a": "HistoryUnavailable",
        "kafka/b": "HistoryUnavailable",
        "kafka/c": "KafkaUnreachable",
        HOSTILE: "",
    }


def test_index_page_links_only_to_the_page_of_each_cluster(files, tmp_path):
    folder = tmp_path / "site" / "scans"
    assert cli("report", "fleet", *files, "--pages", folder).code == 0
    index = (folder / "index.html").read_text()
    links = re.findall(r'href="([^"]*)"', index)
    pages = [link for link in links if not link.startswith("#icon-")]
    assert len(pages) == len(set(pages)) == 4
    assert {path.name for path in folder.iterdir()} == {"index.html", *pages}
    for page, cluster in zip(pages, ORDER, strict=True):
        title = re.search("<title>(.*?)</title>", (folder / page).read_text())[1]
        assert unescape(title).startswith(cluster)
    assert "<script" not in index
    assert "Something is wrong in 3 of 4 clusters." in index


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say which scans"),
        (("a.json", "--history", "h"), "say which scans: only one of FILE and --history can be used"),
        (("nowhere.json",), "nowhere.json: there is no such file"),
        (("--history", "empty"), "holds no scans"),
    ],
)
def test_missing_conflicting_or_unreadable_scans_are_an_error(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    ran = cli("report", "fleet", *arguments)
    assert ran.code == 2
    assert said in ran.err


def test_folder_of_pages_that_cannot_be_created_is_an_error(files):
    ran = cli("report", "fleet", *files, "--pages", files[0])
    assert ran.code == 2
    assert ran.err.startswith(f"error: {files[0]}: is not a directory")


def test_sparkline_falls_with_the_share_of_compliant_partitions():
    days = [Day(f"2026-11-0{at}", 1, share, 0, 0, 0.0) for at, share in enumerate((1.0, 0.95, 0.9), start=1)]
    assert sparkline(days) == "2.0,2.0 48.0,11.0 94.0,20.0"
    assert sparkline(days[:1]) == sparkline([]) == ""
