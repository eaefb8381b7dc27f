"""A plan for people: tables on a terminal, Markdown for a pull request."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from rich.console import Console

from rackspan.cli.rendering.tables import console, print_hidden, span, table
from rackspan.core.copy_costs import bytes_to_copy, removed, to_copy
from rackspan.core.planning import Change, Plan, PlanState
from rackspan.core.text import be, every, plural, size
from rackspan.reports.texts import code, plain

_ROWS = 20
_MARKDOWN_TOPICS, _MARKDOWN_CHANGES = 200, 500
"""GitHub refuses comments of more than 65,536 characters."""


def print_table(plan: Plan, throttle: int | None, *, show_all: bool) -> None:
    """Print compliance, the cost under a throttle in bytes per second and broker, and the changes."""
    screen = console()
    if plan.empty:
        words = _nothing(plan) if plan.feasible else "nothing of it can be done"
        fine = plan.feasible and not plan.after.non_compliant
        screen.print(f"{words}: {_compliance(plan)}  (plan {plan.hash})", style="green" if fine else "bold red")
        _print_states(screen, plan)
        return
    screen.print(_compliance(plan), style="bold")
    screen.print(f"{_cost(plan, throttle)}  (plan {plan.hash})")
    for one in plan.below_min_insync[:_ROWS]:
        screen.print(str(one), style="yellow")
    print_hidden(screen, len(plan.below_min_insync) - _ROWS, "more topic")
    _print_states(screen, plan)
    rows = table("topic", "#partition", "now", "planned", "#copied", "#bytes")
    most = len(plan.changes) if show_all else _ROWS
    for change in plan.changes[:most]:
        copied = change.copied
        known = None if change.size_bytes is None else change.size_bytes * copied
        rows.add_row(
            change.topic,
            str(change.partition),
            _replicas(change.before) or "new",
            _replicas(change.replicas),
            str(copied),
            size(known, "?") if copied else "",
        )
    screen.print(rows)
    print_hidden(screen, len(plan.changes) - most, "more partition")


def print_markdown(plan: Plan, throttle: int | None, created: Iterator[str], *, show_all: bool) -> None:
    """Print the plan for a pull request: the certificate, then `created`, the topics, and the changes folded."""
    print("\n".join(_markdown(plan, throttle, created, show_all=show_all)))


def _nothing(plan: Plan) -> str:
    return "nothing to do" if plan.after.partitions else "nothing to move"


def _compliance(plan: Plan) -> str:
    return "; ".join([_out_of_compliance(plan), *_pinned(plan.before, plan.after)])


def _pinned(before: PlanState, after: PlanState) -> Iterator[str]:
    if after.pinned:
        times = "" if before.pinned == after.pinned else f" afterwards, {before.pinned:,} now"
        yield (
            f"{plural(after.pinned, 'partition')} {be(after.pinned)} pinned and unfair{times}: "
            f"{plural(after.pinned_moves, 'move')} would fix that without the assignment"
        )


def _out_of_compliance(plan: Plan) -> str:
    before, after = plan.before, plan.after
    if not after.partitions:
        return "no partition exists yet"
    if not before.non_compliant and not after.non_compliant:
        return f"{every(after.partitions, 'partition')} compliant"
    some = before.non_compliant
    wrong = f"{some:,} of {plural(before.partitions, 'partition')} {be(some)} out of compliance"
    if before.non_compliant == after.non_compliant:
        return f"{wrong} and {'stays' if before.non_compliant == 1 else 'stay'} so"
    return f"{wrong} now, {after.non_compliant:,} afterwards"


def _cost(plan: Plan, throttle: int | None) -> str:
    words = [f"{plural(plan.moves, 'move')}, {_bound(plan)}"]
    if plan.moves:
        words.append(to_copy(plan.bytes, throttle))
    if plan.reorders:
        words.append(f"{plural(plan.reorders, 'reorder')} without copying")
    if plan.removals:
        words.append(removed(plan.removals, plan.removed_bytes))
    if plan.changes.created:
        words.append(plural(plan.changes.created, "new partition"))
    return "; ".join(words)


def _bound(plan: Plan) -> str:
    if plan.gap:
        return f"{plan.gap:,} more than the lower bound of {plan.lower_bound:,}"
    return f"the fewest there can be (lower bound {plan.lower_bound:,})"


def _replicas(replicas: Sequence[int]) -> str:
    return " ".join(map(str, replicas))


def _print_states(screen: Console, plan: Plan) -> None:
    rows = table("level", "#unfair", "#replicas per domain", "#leaders per domain")
    for line in _levels(plan.before, plan.after):
        rows.add_row(*line)
    screen.print(rows)


def _levels(before: PlanState, after: PlanState) -> Iterator[tuple[str, str, str, str]]:
    """Yield per level its name, and what changes in unfair partitions, replicas and leaders."""
    for one, other in zip(before.levels, after.levels, strict=True):
        unfair = ""
        if one.name in before.unfair:
            unfair = _change(f"{before.unfair[one.name]:,}", f"{after.unfair[one.name]:,}")
        yield (
            one.name,
            unfair,
            _change(span(*one.replicas), span(*other.replicas)),
            _change(span(*one.leaders), span(*other.leaders)),
        )


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _markdown(plan: Plan, throttle: int | None, created: Iterator[str], *, show_all: bool) -> Iterator[str]:
    yield f"## Kafka reassignment plan `{plan.hash}`\n"
    for problem in plan.problems:
        yield f"> [!CAUTION]\n> {plain(str(problem))}\n"
    for one in plan.below_min_insync[:_ROWS]:
        yield f"> [!WARNING]\n> {plain(str(one))}\n"
    state = _compliance(plan)
    cost = _cost(plan, throttle) if plan.changes else _nothing(plan).capitalize()
    yield f"**{cost}.** {state[0].upper()}{state[1:]}.\n"
    yield "| certificate | |\n|---|---:|"
    yield f"| moves (replicas to copy) | {plan.moves:,} |"
    yield f"| lower bound | {plan.lower_bound:,} |"
    yield f"| gap | {plan.gap:,} |"
    yield f"| reorders (no copying) | {plan.reorders:,} |"
    yield f"| replicas removed | {plan.removals:,} |"
    yield f"| bytes to copy | {size(plan.bytes, 'not known')} |"
    yield f"| bytes removed | {size(plan.removed_bytes, 'not known')} |"
    yield f"| out of compliance | {_change(f'{plan.before.non_compliant:,}', f'{plan.after.non_compliant:,}')} |"
    yield f"| pinned and unfair | {_change(f'{plan.before.pinned:,}', f'{plan.after.pinned:,}')} |\n"
    yield "| level | unfair partitions | replicas per domain | leaders per domain |\n|---|---:|---:|---:|"
    for line in _levels(plan.before, plan.after):
        yield f"| {' | '.join(map(plain, line))} |"
    extra = [*created]
    yield from ["", *extra][: len(extra) + bool(extra)]
    if plan.changes:
        yield ""
        yield from _markdown_topics(plan, len(plan.changes) if show_all else _MARKDOWN_TOPICS)
        yield ""
        yield from _markdown_changes(plan, len(plan.changes) if show_all else _MARKDOWN_CHANGES)


def _markdown_topics(plan: Plan, most: int) -> Iterator[str]:
    rows = [_markdown_topic(name, [*some]) for name, some in groupby(plan.changes, key=attrgetter("topic"))]
    yield "| topic | partitions changed | moves | removed | reorders | new | bytes to copy |"
    yield f"|---|{6 * '---:|'}"
    yield from rows[:most]
    yield from _markdown_hidden(len(rows) - most)


def _markdown_topic(name: str, changes: Sequence[Change]) -> str:
    counts = (
        len(changes),
        sum(one.copied for one in changes),
        sum(one.removed for one in changes),
        sum(one.is_reorder for one in changes),
        sum(not one.before for one in changes),
    )
    numbers = " | ".join(f"{count:,}" for count in counts)
    return f"| {code(name)} | {numbers} | {size(bytes_to_copy(changes), 'not known')} |"


def _markdown_changes(plan: Plan, most: int) -> Iterator[str]:
    yield f"<details><summary>{plural(len(plan.changes), 'change')}</summary>\n"
    yield "| topic | partition | now | planned |\n|---|---:|---|---|"
    for change in plan.changes[:most]:
        before = _replicas(change.before) or "new"
        yield f"| {code(change.topic)} | {change.partition} | {before} | {_replicas(change.replicas)} |"
    yield from _markdown_hidden(len(plan.changes) - most)
    yield "\n</details>"


def _markdown_hidden(rows: int) -> Iterator[str]:
    if rows > 0:
        yield f"\n… and {rows:,} more: `rackspan plan --all -o markdown`, or `-o json`."
