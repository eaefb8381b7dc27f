"""
What a topology may ask of its scans where its namespace is not trusted. Pure.

A scan has the release's identity: its cloud role, its volumes, its share of the cluster. So whoever may write a
topology in some namespace chooses neither code, nor where data goes, nor what is mounted, and spends no more than the
chart says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from msgspec import structs

from rackspan.api.codec import ApiStruct, decode
from rackspan.api.racktopology import DEFAULT_HISTORY_PATH, ComplianceScanSpec, ConcurrencyPolicy, ExecutorsSpec
from rackspan.reconcile.scans.locations import Location, LocationError
from rackspan.reconcile.scans.quantities import heap, quantity
from rackspan.reconcile.scans.schedule import Schedule, ScheduleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rackspan.api.meta import ObjectKey


class ScanLimits(ApiStruct, frozen=True):
    """
    The most that one topology's scans may spend; `scan.limits` of the chart.

    `cpu` and `memory` are each pod's, requested or at most. Those of executors are summed over all of them; memory is
    their heap. `jobs_kept` is how many scans that ended well, and how many that did not, stay. `history_days` is None
    where a history may be kept for ever. `running_per_namespace` counts scans of all topologies of one namespace.
    """

    cpu: str = "4"
    memory: str = "8Gi"
    executor_cores: int = 16
    executor_memory: str = "32Gi"
    active_deadline_seconds: int = 14400
    schedule_interval_seconds: int = 900
    backoff_limit: int = 3
    jobs_kept: int = 10
    history_days: int | None = None
    running_per_namespace: int = 2


@dataclass(frozen=True, slots=True)
class Allowance:
    """The chart's lists: `locations` are prefixes, in which `{namespace}` stands for the topology's own."""

    locations: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    limits: ScanLimits = field(default_factory=ScanLimits)

    @classmethod
    def read(cls, locations: Iterable[str], claims: Iterable[str], limits: Mapping[str, object]) -> Self:
        """From the chart's values; `limits` are camelCase. Raises ValueError."""
        allowance = cls(tuple(locations), tuple(claims), decode(ScanLimits, limits, "limits"))
        unknown = limits.keys() - {one.encode_name for one in structs.fields(ScanLimits)}
        if unknown:
            raise ValueError(f"limits has no {min(unknown)}")
        for amount in (allowance.limits.cpu, allowance.limits.memory, allowance.limits.executor_memory):
            quantity(amount)
        for location in allowance.locations:
            Location.parse(location.replace("{namespace}", "any"))
        return allowance

    def refusals(self, key: ObjectKey, spec: ComplianceScanSpec) -> tuple[str, ...]:
        """What of `spec.compliance` is not allowed to an untrusted namespace; each names the chart's value."""
        return (*_code(spec), *_places(key, spec, self), *_spending(spec, self.limits))


def _code(spec: ComplianceScanSpec) -> Iterator[str]:
    for name, value in (("image", spec.image), ("sparkConf", spec.spark_conf)):
        if value:
            yield f"{name} needs the namespace in scan.trustedNamespaces"


def _places(key: ObjectKey, spec: ComplianceScanSpec, allowance: Allowance) -> Iterator[str]:
    if spec.history_location is not None and not _is_allowed(key, spec.history_location, allowance):
        yield "historyLocation is below none of scan.allowedLocations"
    volume = spec.history_volume
    if volume is None:
        return
    if volume.claim_name not in allowance.claims:
        yield "historyVolume.claimName is none of scan.allowedClaims"
    steps = (volume.sub_path or f"{key.namespace}/{key.name}").removesuffix("/").split("/")
    if steps[:2] != [key.namespace, key.name] or {"", ".", ".."} & {*steps}:
        yield f"historyVolume.subPath outside {key} needs the namespace in scan.trustedNamespaces"


def _is_allowed(key: ObjectKey, text: str, allowance: Allowance) -> bool:
    try:
        asked = Location.parse(text)
        prefixes = [Location.parse(one.replace("{namespace}", key.namespace)) for one in allowance.locations]
    except LocationError:
        return False
    return any(asked.within(prefix) for prefix in (Location.parse(DEFAULT_HISTORY_PATH), *prefixes))


def _spending(spec: ComplianceScanSpec, limits: ScanLimits) -> Iterator[str]:
    yield from _resources(spec, limits)
    yield from _executors(spec.executors or ExecutorsSpec(), limits)
    between = limits.schedule_interval_seconds
    for name, value, limit, most in (
        (
            "activeDeadlineSeconds",
            spec.active_deadline_seconds,
            "activeDeadlineSeconds",
            limits.active_deadline_seconds,
        ),
        ("backoffLimit", spec.backoff_limit, "backoffLimit", limits.backoff_limit),
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit, "jobsKept", limits.jobs_kept),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit, "jobsKept", limits.jobs_kept),
    ):
        if value > most:
            yield f"{name} is more than scan.limits.{limit}, {most}"
    if spec.concurrency_policy is ConcurrencyPolicy.ALLOW:
        yield "concurrencyPolicy Allow needs the namespace in scan.trustedNamespaces"
    days = limits.history_days
    if days is not None and spec.history is not None and (spec.retention_days is None or spec.retention_days > days):
        yield f"retentionDays is missing, or more than scan.limits.historyDays, {days}"
    if spec.schedule is not None and _interval(spec) < between:
        yield f"schedule comes more often than every scan.limits.scheduleIntervalSeconds, {between}"


def _resources(spec: ComplianceScanSpec, limits: ScanLimits) -> Iterator[str]:
    if spec.resources is None:
        return
    most = {"cpu": limits.cpu, "memory": limits.memory}
    for side, amounts in (("requests", spec.resources.requests), ("limits", spec.resources.limits)):
        for name, amount in sorted(amounts.items()):
            if name not in most:
                yield f"resources.{side} other than cpu and memory need the namespace in scan.trustedNamespaces"
                break
            if not _at_most(amount, most[name]):
                yield f"resources.{side}.{name} is more than scan.limits.{name}, {most[name]}"


def _at_most(amount: int | str, most: str) -> bool:
    try:
        return quantity(amount) <= quantity(most)
    except ValueError:
        return False


def _executors(executors: ExecutorsSpec, limits: ScanLimits) -> Iterator[str]:
    if executors.instances * executors.cores > limits.executor_cores:
        yield f"executors have more cores together than scan.limits.executorCores, {limits.executor_cores}"
    try:
        fits = executors.instances * heap(executors.memory) <= quantity(limits.executor_memory)
    except ValueError:
        fits = False
    if not fits:
        yield f"executors have more memory together than scan.limits.executorMemory, {limits.executor_memory}"


def _interval(spec: ComplianceScanSpec) -> float:
    try:
        return Schedule.parse(spec.schedule or "", spec.time_zone).shortest_interval
    except ScheduleError:
        return float("inf")  # it never comes, which is told elsewhere
