"""The operator's settings for scans, and what a topology in an untrusted namespace may configure. Pure.

Scans run with the Helm release's identity: its cloud role, its volumes, its share of the cluster. So a user who may
write RackTopologies in a namespace can choose neither the code that runs, nor the location of the data, nor the
volumes. Such a user cannot use more resources than the chart allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Self

from msgspec import structs

from rackspan.api.codec import ApiStruct, decode
from rackspan.api.racktopology import DEFAULT_HISTORY_PATH, ComplianceScanSpec, ConcurrencyPolicy, ExecutorsSpec
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.runtime.schedule import Schedule, ScheduleError
from rackspan.reconcile.scans.history_location import Location, LocationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology

_QUANTITY: Final = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_HEAP: Final = re.compile(r"([0-9]{1,30})([kmgt])")
_SCALES: Final = {
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGT", start=1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), start=1)},
}


def parse_quantity(text: int | str) -> Decimal:
    """Return the value of a Kubernetes quantity, such as 1, 500m or 2Gi, in CPUs or bytes. Raises ValueError."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{str(text)[:40]!r} is not an amount such as 500m or 2Gi")
    number, unit = found.groups()
    return Decimal(number) * _SCALES.get(unit or "", Decimal(1))


def capped(amount: int | str, bound: str) -> int | str:
    """Return the smaller of a quantity and its bound, or the bound if the quantity is invalid."""
    try:
        return min(amount, bound, key=parse_quantity)
    except ValueError:
        return bound


def parse_heap(text: str) -> int:
    """Return the bytes of a size in Spark's notation, such as 512m or 2g. Raises ValueError."""
    found = _HEAP.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is not a heap size such as 512m or 2g")
    number, unit = found.groups()
    scale: int = 1024 ** ("kmgt".index(unit) + 1)
    return int(number) * scale


class ScanLimits(ApiStruct, frozen=True):
    """Upper bounds for the scans of one topology: `scan.limits` of the chart.

    `cpu` and `memory` bound each pod's requests and limits (Kubernetes quantities). `executor_cores` and
    `executor_memory` (JVM heap) bound the sum over all executors. `jobs_kept` bounds both history limits. If
    `history_days` is None, a history may be kept for ever. `running_per_namespace` bounds the running scans of all
    topologies of a namespace together.
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
    """The chart's permissions: URI prefixes (`{namespace}` is the topology's), PersistentVolumeClaims, and limits."""

    locations: tuple[str, ...]
    claims: tuple[str, ...]
    limits: ScanLimits

    @classmethod
    def read(cls, locations: Iterable[str], claims: Iterable[str], limits: Mapping[str, object]) -> Self:
        """Read the chart's values. The keys of `limits` are in camelCase. Raises ValueError."""
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
        """Return a message for each part of `spec.compliance` that is not allowed, with the chart's value for it."""
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
        return float("inf")  # an invalid schedule is reported by `scan_decision`


@dataclass(frozen=True, slots=True)
class ScanSetup:
    """The chart's values for scans.

    While `namespace` or `image` is None, the operator starts no scan, and the condition Scanned says so. `pod` is
    merged into the PodSpec of every scan's pods (nodeSelector, tolerations, imagePullSecrets). At most `max_running`
    scans of all topologies run at a time. `tmp_size` is the size limit of each pod's emptyDir, a Kubernetes quantity.
    The entries of `store_secret`, a Secret in `namespace`, become environment variables of scans: credentials of an
    object store.

    Scans run in the operator's namespace and may read the Secrets that topologies of any namespace refer to. So a
    topology may only use what `allowance` permits, unless its namespace is in `trusted` (`*`: all namespaces).
    """

    namespace: str | None
    image: str | None
    service_account: str
    pull_policy: str
    application: str
    pod: Mapping[str, Any]
    trusted: tuple[str, ...]
    allowance: Allowance
    max_running: int
    tmp_size: str
    store_secret: str | None

    def trusts(self, namespace: str) -> bool:
        """Return whether topologies of this namespace are exempt from `allowance`."""
        return namespace == self.namespace or not {"*", namespace}.isdisjoint(self.trusted)

    def failure(self, topology: RackTopology) -> Failure | None:
        """Return why no scan of this topology can be started, or None."""
        spec = topology.spec.scan
        if self.namespace is None:
            return _not_set_up("the operator does not know the namespace where scans run: set RACKSPAN_SCAN_NAMESPACE")
        if spec.image is None and self.image is None:
            return _not_set_up("the operator does not know the image that scans: set RACKSPAN_SCAN_IMAGE")
        return _invalid_location(spec) or self._not_allowed(topology, spec)

    def _not_allowed(self, topology: RackTopology, spec: ComplianceScanSpec) -> Failure | None:
        namespace = topology.key.namespace
        violations = () if self.trusts(namespace) else self.allowance.violations(topology.key, spec)
        if not violations:
            return None
        message = f"the chart does not allow this of spec.compliance in namespace {namespace}: {'; '.join(violations)}"
        return Failure(Reason.SCAN_NOT_ALLOWED, message, Remedy.ACCESS)


def _invalid_location(spec: ComplianceScanSpec) -> Failure | None:
    """Return why the location is invalid, or None. The CRD's rule does not apply to objects stored before the rule."""
    if spec.history_location is None:
        return None
    try:
        Location.parse(spec.history_location)
    except LocationError as error:
        message = f"spec.compliance.historyLocation cannot be used: {error}"
        return Failure(Reason.SCAN_NOT_ALLOWED, message, Remedy.SPEC)
    return None


def _not_set_up(message: str) -> Failure:
    return Failure(Reason.SCAN_NOT_SET_UP, message, Remedy.ACCESS)
