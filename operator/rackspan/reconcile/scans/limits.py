"""What a topology in an untrusted namespace may ask of its scans. Pure.

Scans run with the Helm release's identity: its cloud role, its volumes, its share of the cluster. So whoever may write
RackTopologies in a namespace can choose neither the code that runs, nor where data is written, nor what is mounted,
and can use no more resources than the chart allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from msgspec import structs

from rackspan.api.codec import ApiStruct, decode
from rackspan.api.racktopology import DEFAULT_HISTORY_PATH, ComplianceScanSpec, ConcurrencyPolicy, ExecutorsSpec
from rackspan.reconcile.runtime.schedule import Schedule, ScheduleError
from rackspan.reconcile.scans.history_location import Location, LocationError
from rackspan.reconcile.scans.quantities import parse_heap, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rackspan.api.meta import ObjectKey


class ScanLimits(ApiStruct, frozen=True):
    """Upper bounds for the scans of one topology: `scan.limits` of the chart.

    `cpu` and `memory` bound each pod's requests and limits (Kubernetes quantities). `executor_cores` and
    `executor_memory` (JVM heap) bound the sum over all executors. `jobs_kept` bounds both history limits.
    `history_days` is None where a history may be kept for ever. `running_per_namespace` counts the scans of all
    topologies of a namespace.
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
    """What the chart allows: URI prefixes (`{namespace}` is the topology's), PersistentVolumeClaims, and limits."""

    locations: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    limits: ScanLimits = field(default_factory=ScanLimits)

    @classmethod
    def read(cls, locations: Iterable[str], claims: Iterable[str], limits: Mapping[str, object]) -> Self:
        """Read the chart's values; the keys of `limits` are camelCase. Raises ValueError."""
        allowance = cls(tuple(locations), tuple(claims), decode(ScanLimits, limits, "limits"))
        unknown = limits.keys() - {one.encode_name for one in structs.fields(ScanLimits)}
        if unknown:
            raise ValueError(f"limits has no {min(unknown)}")
        for amount in (allowance.limits.cpu, allowance.limits.memory, allowance.limits.executor_memory):
            parse_quantity(amount)
        for location in allowance.locations:
            Location.parse(location.replace("{namespace}", "any"))
        return allowance

    def violations(self, key: ObjectKey, spec: ComplianceScanSpec) -> tuple[str, ...]:
        """A message for each part of `spec.compliance` that is not allowed, naming the chart's value that decides."""
        return (*_code_violations(spec), *_storage_violations(key, spec, self), *_limit_violations(spec, self.limits))


def _code_violations(spec: ComplianceScanSpec) -> Iterator[str]:
    for name, value in (("image", spec.image), ("sparkConf", spec.spark_conf)):
        if value:
            yield f"{name} needs the namespace in scan.trustedNamespaces"


def _storage_violations(key: ObjectKey, spec: ComplianceScanSpec, allowance: Allowance) -> Iterator[str]:
    if spec.history_location is not None and not _is_allowed(key, spec.history_location, allowance):
        yield "historyLocation is below none of scan.allowedLocations"
    volume = spec.history_volume
    if volume is None:
        return
    if volume.claim_name not in allowance.claims:
        yield "historyVolume.claimName is none of scan.allowedClaims"
    segments = (volume.sub_path or f"{key.namespace}/{key.name}").removesuffix("/").split("/")
    if segments[:2] != [key.namespace, key.name] or {"", ".", ".."} & {*segments}:
        yield f"historyVolume.subPath outside {key} needs the namespace in scan.trustedNamespaces"


def _is_allowed(key: ObjectKey, text: str, allowance: Allowance) -> bool:
    try:
        asked = Location.parse(text)
        prefixes = [Location.parse(one.replace("{namespace}", key.namespace)) for one in allowance.locations]
    except LocationError:
        return False
    return any(asked.within(prefix) for prefix in (Location.parse(DEFAULT_HISTORY_PATH), *prefixes))


def _limit_violations(spec: ComplianceScanSpec, limits: ScanLimits) -> Iterator[str]:
    yield from _resource_violations(spec, limits)
    yield from _executor_violations(spec.executors or ExecutorsSpec(), limits)
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


def _resource_violations(spec: ComplianceScanSpec, limits: ScanLimits) -> Iterator[str]:
    if spec.resources is None:
        return
    most = {"cpu": limits.cpu, "memory": limits.memory}
    for side, amounts in (("requests", spec.resources.requests), ("limits", spec.resources.limits)):
        for name, amount in sorted(amounts.items()):
            if name not in most:
                yield f"resources.{side} other than cpu and memory need the namespace in scan.trustedNamespaces"
                break
            if not _is_within(amount, most[name]):
                yield f"resources.{side}.{name} is more than scan.limits.{name}, {most[name]}"


def _is_within(amount: int | str, most: str) -> bool:
    try:
        return parse_quantity(amount) <= parse_quantity(most)
    except ValueError:
        return False


def _executor_violations(executors: ExecutorsSpec, limits: ScanLimits) -> Iterator[str]:
    if executors.instances * executors.cores > limits.executor_cores:
        yield f"executors have more cores together than scan.limits.executorCores, {limits.executor_cores}"
    try:
        fits = executors.instances * parse_heap(executors.memory) <= parse_quantity(limits.executor_memory)
    except ValueError:
        fits = False
    if not fits:
        yield f"executors have more memory together than scan.limits.executorMemory, {limits.executor_memory}"


def _interval(spec: ComplianceScanSpec) -> float:
    try:
        return Schedule.parse(spec.schedule or "", spec.time_zone).shortest_interval
    except ScheduleError:
        return float("inf")  # an invalid schedule is reported by `decision`
