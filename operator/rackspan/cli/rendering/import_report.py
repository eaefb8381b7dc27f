"""The result of an import: as YAML documents, as files, and as a report for programs and for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rackspan.core.copy_costs import removed
from rackspan.core.planning import Plan
from rackspan.core.text import plural
from rackspan.imports.imported_topics import Definition, Imported, Remark, RemarkKind, Source
from rackspan.imports.manifests import manifest, yaml_document
from rackspan.imports.names import named
from rackspan.imports.present import NEW_TOPIC

_LONGEST_STEM = 240  # a file's name has at most 255 bytes


@dataclass(frozen=True, slots=True)
class ImportReport:
    """An import with the objects that it makes, and their plan if there is a cluster."""

    imported: Imported
    manifests: tuple[Mapping[str, Any], ...]
    plan: Plan | None

    @classmethod
    def of(cls, imported: Imported, plan: Plan | None) -> "ImportReport":
        """Return the report, with names and manifests for the objects."""
        names = named(imported.definitions)
        return cls(imported, tuple(map(manifest, names, imported.definitions)), plan)

    @property
    def documents(self) -> Iterator[str]:
        """The objects as YAML, each below comments with its source and remarks."""
        for one, document in zip(self.imported.definitions, self.manifests, strict=True):
            yield yaml_document(document, [f"from {one.source}", *map(str, one.remarks)])

    @property
    def files(self) -> Mapping[Path, str]:
        """The same texts by file name: one file per object, in a directory per namespace."""
        return {
            Path(document["metadata"].get("namespace", "")) / f"{_stem(document['metadata']['name'])}.yaml": text
            for document, text in zip(self.manifests, self.documents, strict=True)
        }

    @property
    def losses(self) -> Sequence[tuple[Definition, Remark]]:
        """The remarks on what differs from the source or from Kafka."""
        return [
            (one, remark)
            for one in self.imported.definitions
            for remark in one.remarks
            if remark.kind is not RemarkKind.CONVERTED
        ]

    @property
    def sentences(self) -> Iterator[str]:
        """A sentence for each document that is left out, and for each remark."""
        for left_out in self.imported.skipped:
            yield str(left_out)
        for one in self.imported.definitions:
            for remark in one.remarks:
                yield f"{one.source}: topic {one.topic}: {remark}"

    @property
    def summary(self) -> str:
        """The last sentence."""
        counts = self._counts
        less = [f"{counts[key]:,} {key}" for key in ("skipped", "refused") if counts[key]]
        imported = f"imported {counts['imported']:,} of {plural(counts['topics'], 'topic')}"
        head = ", ".join([imported, *less])
        if self.plan is None:
            return head
        steps = (
            f"{plural(self.plan.moves, 'move')}, {plural(self.plan.reorders, 'reorder')}"
            f"{f', {removed(self.plan.removals)}' if self.plan.removals else ''} and "
            f"{plural(self.plan.changes.created, 'new partition')}"
        )
        new = sum(NEW_TOPIC in one.remarks for one in self.imported.definitions)
        if new:
            return f"{head}; applying them creates {plural(new, 'topic')}; the plan of the others has {steps}"
        changes = "applying them changes nothing: " if self.changes_nothing else ""
        return f"{head}; {changes}the plan has {steps}"

    @property
    def changes_nothing(self) -> bool:
        """Whether there is an empty plan of the manifests, and nothing else would change."""
        changes = any(remark.kind is RemarkKind.WOULD_CHANGE for _, remark in self.losses)
        return self.plan is not None and self.plan.empty and self.plan.feasible and not changes

    @property
    def document(self) -> dict[str, Any]:
        """The report as a document."""
        rows: list[dict[str, Any]] = [
            {
                "topic": one.topic,
                "outcome": "Imported",
                "source": _source(one.source),
                "remarks": [
                    {"kind": remark.kind.value, "field": remark.field, "message": remark.message}
                    for remark in one.remarks
                ],
                "manifest": document,
            }
            for one, document in zip(self.imported.definitions, self.manifests, strict=True)
        ]
        rows += [
            {
                "topic": one.subject.removeprefix("topic "),
                "outcome": "Skipped",
                "source": _source(one.source),
                "reason": one.reason,
            }
            for one in self.imported.skipped
        ]
        rows += [
            {"topic": None, "outcome": "Refused", "source": _source(one.source), "reason": one.reason}
            for one in self.imported.refused
        ]
        return {"summary": self._counts, "plan": self._plan, "topics": rows}

    @property
    def _counts(self) -> dict[str, int]:
        imported, skipped, refused = (
            len(part) for part in (self.imported.definitions, self.imported.skipped, self.imported.refused)
        )
        return {
            "topics": imported + skipped + refused,
            "imported": imported,
            "skipped": skipped,
            "refused": refused,
        }

    @property
    def _plan(self) -> dict[str, Any] | None:
        if self.plan is None:
            return None
        return {
            "moves": self.plan.moves,
            "lowerBound": self.plan.lower_bound,
            "removals": self.plan.removals,
            "reorders": self.plan.reorders,
            "newPartitions": self.plan.changes.created,
            "problems": [str(problem) for problem in self.plan.problems],
        }


def _stem(name: str) -> str:
    if len(name) <= _LONGEST_STEM:
        return name
    return f"{name[: _LONGEST_STEM - 9]}-{sha256(name.encode()).hexdigest()[:8]}"


def _source(source: Source) -> dict[str, Any]:
    return {"name": source.name, "line": source.line}
