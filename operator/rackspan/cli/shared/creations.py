"""The topics that KafkaTopics in files create and configure, as tables, documents and Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from rackspan.cli.rendering.guarantees_table import level_cell, level_documents
from rackspan.cli.rendering.tables import print_hidden, table
from rackspan.cli.shared.manifest_requirements import CreatedTopic, JudgedFiles
from rackspan.core.text import plural, shown
from rackspan.reports.texts import code, plain

_ROWS = 20
_MARKDOWN_ROWS = 200
_MAX_SHOWN = 100
_SURVIVES = "the number of domains that hold an acks=all write, at least"


def print_created(screen: Console, judged: JudgedFiles, *, show_all: bool) -> None:
    """Print a row for each topic that is created, and for each whose configs are set. Print nothing if none are."""
    if judged.created:
        rows = table("created", "#partitions", "#min.insync.replicas", "partition 0", *_levels(judged.created, "#"))
        most = len(judged.created) if show_all else _ROWS
        for one in judged.created[:most]:
            rows.add_row(*_cells(one))
        screen.print(f"{plural(len(judged.created), 'topic')} created; by level, {_SURVIVES}:", style="bold")
        screen.print(rows)
        print_hidden(screen, len(judged.created) - most, "more topic")
    if judged.configured:
        rows = table("configured", "set")
        most = len(judged.configured) if show_all else _ROWS
        for change in judged.configured[:most]:
            rows.add_row(change.name, _settings(change.set))
        screen.print(rows)
        print_hidden(screen, len(judged.configured) - most, "more topic")


def created_document(judged: JudgedFiles) -> dict[str, Any]:
    """Return the part of a plan's JSON that is about files: `created` and `configured`."""
    return {
        "created": [
            {
                "topic": one.topic.name,
                "partitions": one.partitions,
                "replicationFactor": one.topic.replication_factor,
                "config": dict(one.topic.config),
                "replicas": one.topic.assignment,
                "minInsyncReplicas": one.survives.min_insync if one.survives else None,
                "levels": level_documents(one.survives.levels) if one.survives else [],
                "message": one.survives.sentence if one.survives else "Kafka chooses the brokers",
            }
            for one in judged.created
        ],
        "configured": [{"topic": change.name, "set": dict(change.set)} for change in judged.configured],
    }


def created_markdown(judged: JudgedFiles) -> Iterator[str]:
    """Yield the same as two Markdown tables for a pull request, or nothing if there are none."""
    if judged.created:
        levels = _levels(judged.created)
        yield f"### {plural(len(judged.created), 'topic')} created\n"
        headings = ("topic", "partitions", "min.insync.replicas", "partition 0", *map(plain, levels))
        yield f"| {' | '.join(headings)} |"
        yield f"|---|---:|---:|---|{'---:|' * len(levels)}"
        for one in judged.created[:_MARKDOWN_ROWS]:
            name, *cells = _cells(one)
            yield f"| {code(name)} | {' | '.join(map(plain, cells))} |"
        yield from _left_out(judged.created)
        yield f"\nBy level: {_SURVIVES}.\n"
    if judged.configured:
        yield f"### {plural(len(judged.configured), 'topic')} configured\n\n| topic | set |\n|---|---|"
        for change in judged.configured[:_MARKDOWN_ROWS]:
            yield f"| {code(change.name)} | {plain(_settings(change.set))} |"
        yield from _left_out(judged.configured)
        yield ""


def _left_out(rows: Sequence[object]) -> Iterator[str]:
    if len(rows) > _MARKDOWN_ROWS:
        yield f"\n… and {len(rows) - _MARKDOWN_ROWS:,} more: `-o json` lists them."


def _levels(created: Sequence[CreatedTopic], mark: str = "") -> list[str]:
    known = next((one.survives for one in created if one.survives), None)
    return [f"{mark}{one.level}" for one in known.levels] if known else []


def _cells(one: CreatedTopic) -> tuple[str, ...]:
    found = one.survives
    first = " ".join(map(str, one.topic.assignment[0])) if one.topic.assignment else "Kafka chooses"
    least = str(found.min_insync) if found else ""
    return (one.topic.name, f"{one.partitions:,}", least, first, *(map(level_cell, found.levels) if found else ()))


def _settings(values: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={shown(value, _MAX_SHOWN)}" for key, value in sorted(values.items()))
