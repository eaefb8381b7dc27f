"""The progress of a plan: a bar on a terminal, lines without a terminal, JSON for programs."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rackspan.cli.rendering.event_lines import LONGEST, QUIET_SECONDS, LastingLines
from rackspan.cli.rendering.output_formats import Format
from rackspan.cli.rendering.progress import ProgressStep, bars_are_shown, step
from rackspan.core.text import plural, shown, size

if TYPE_CHECKING:
    from rackspan.reconcile.plans.executor import Pass

_SAMPLES = 20
_LONGEST_SECONDS = 30 * 24 * 3600.0
"""Longer estimates are not shown: something is wrong, or the rate is not known yet."""
_NAMED = 50


class ReassignmentProgress:
    """Prints passes. A line is printed if something has changed, and at least every ten seconds.

    `last` is the last pass that was shown.
    """

    def __init__(self, plan_hash: str, output: Format, bar: ProgressStep) -> None:
        self._plan = plan_hash
        self._output = output
        self._lines = LastingLines(output)
        self._bar = bar
        self._samples: list[tuple[float, int]] = []
        self._last: tuple[object, ...] = ()
        self._printed = 0.0
        self._reported: tuple[str, str] | None = None
        self._reported_at = 0.0
        self.last: Pass | None = None

    @property
    def lost(self) -> OSError | None:
        """The error of a lost standard output, else None. Nothing is printed after it."""
        return self._lines.lost

    def show(self, seen: "Pass") -> None:
        """Show one pass."""
        now, self.last = time.monotonic(), seen
        moved = seen.progress.moved_bytes + seen.partial_bytes
        self._samples = [*self._samples, (now, moved)][-_SAMPLES:]
        reasons = Counter(one.reason.value for one in seen.waiting)
        problems = (tuple(sorted(reasons.items())), tuple(seen.failures), tuple(seen.left_alone))
        state = (seen.progress.moved, seen.copying, problems, seen.finished)
        rate = self._rate()
        sentence = self._sentence(seen, reasons, moved, rate)
        self._bar.describe(sentence)
        if total := seen.progress.known_bytes:
            self._bar.advance(max(moved, 1), total)
        else:
            self._bar.advance(seen.progress.moved, max(seen.progress.moves, 1))
        if state == self._last and now < self._printed + QUIET_SECONDS:
            return
        self._last, self._printed = state, now
        if self._output is Format.JSON or not bars_are_shown():
            self._lines.report("finished" if seen.finished else "progress", sentence, self._document(seen, moved, rate))

    def report(self, event: str, message: str) -> None:
        """Print an event other than progress. Repeat the same event only after ten seconds."""
        now = time.monotonic()
        if (event, message) == self._reported and now < self._reported_at + QUIET_SECONDS:
            return
        self._reported, self._reported_at = (event, message), now
        if self._output is Format.JSON:
            self._lines.report(event, message, {"plan": self._plan, "message": message})
        else:
            print(shown(message, LONGEST), file=sys.stderr, flush=True)

    def _rate(self) -> float:
        (first, start), (last, end) = self._samples[0], self._samples[-1]
        return max(end - start, 0) / (last - first) if last > first else 0.0

    @staticmethod
    def _sentence(seen: "Pass", reasons: Mapping[str, int], moved: int, rate: float) -> str:
        progress = seen.progress
        words = [f"{progress.moved:,} of {plural(progress.moves, 'move')}"]
        words += [plural(progress.removals, "removal")] if progress.removals else []
        if total := seen.progress.known_bytes:
            words.append(f"{size(moved)} of {size(total)}")
        if seen.copying:
            words.append(f"{seen.copying:,} copying")
        if rate >= 1 and seen.copying:
            words.append(f"{size(rate)}/s")
            if total and 0 < (seconds := (total - moved) / rate) < _LONGEST_SECONDS:
                words.append(f"{_duration(seconds)} left")
        waiting = [f"{number:,} {reason}" for reason, number in sorted(reasons.items())]
        if waiting:
            words.append(f"waiting: {', '.join(waiting)}")
        if seen.failures:
            words.append(f"failed: {seen.failures[0]}")
        if seen.others:
            words.append(seen.others)
        return "; ".join(words)

    def _document(self, seen: "Pass", moved: int, rate: float) -> Mapping[str, Any]:
        return {
            "plan": self._plan,
            "moves": seen.progress.moves,
            "moved": seen.progress.moved,
            "removals": seen.progress.removals,
            "bytes": seen.progress.known_bytes,
            "movedBytes": moved,
            "bytesPerSecond": int(rate),
            "copying": seen.copying,
            "throttles": seen.throttles,
            "throttle": seen.rate,
            "throttlesOfOthers": list(seen.left_alone[:_NAMED]),
            "waiting": [
                {
                    "topic": one.partition.topic,
                    "partition": one.partition.partition,
                    "reason": one.reason.value,
                    "brokers": one.brokers,
                }
                for one in seen.waiting[:_NAMED]
            ],
            "waitingInAll": len(seen.waiting),
            "failures": list(seen.failures[:_NAMED]),
        }


@contextmanager
def progress_shown(plan_hash: str, output: Format) -> Iterator[ReassignmentProgress]:
    """Show the passes of one plan while the block runs."""
    with step(f"plan {plan_hash}") as bar:
        yield ReassignmentProgress(plan_hash, output, bar)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
