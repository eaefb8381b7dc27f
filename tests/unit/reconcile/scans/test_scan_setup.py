"""The scan settings of untrusted namespaces, which must not give them the permissions of the release."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scan_setups import allowance, scan_setup
from tests.unit.reconcile.scans.examples import topology

from rackspan.api.reasons import Reason
from rackspan.reconcile.runtime.schedule import Schedule
from rackspan.reconcile.scans.history_location import Location, LocationError, without_secrets
from rackspan.reconcile.scans.scan_setup import Allowance, parse_quantity

ALLOWED = allowance(
    ("s3a://audit/{namespace}", "gs://all", "/data", "abfss://audit@acme.dfs.core.windows.net/{namespace}"),
    ("scans",),
    cpu="2",
    memory="4Gi",
    jobs_kept=5,
)
SETUP = scan_setup(allowance=ALLOWED)


def volume(**fields):
    return {"historyVolume": {"claimName": "scans", **fields}}


def refused(setup=SETUP, **compliance):
    failure = setup.failure(topology(**compliance))
    return None if failure is None else failure.message


@pytest.mark.parametrize(
    "location",
    [
        "s3a://audit/kafka",
        "s3://audit/kafka/x/",
        "s3n://audit/kafka/x",
        "gs://all",
        "gs://all/kafka",
        "gs://all/",
        "abfss://audit@acme.dfs.core.windows.net/kafka/x",
        "abfs://audit@acme.dfs.core.windows.net/kafka",
    ],
)
def test_location_below_an_allowed_location_is_accepted(location):
    assert refused(historyLocation=location) is None


@pytest.mark.parametrize(
    "location",
    [
        "gs://elsewhere/x",
        "abfss://other@acme.dfs.core.windows.net/kafka/x",
        "abfss://audit@evil.dfs.core.windows.net/kafka/x",
        "abfss://audit/kafka/x",
        "gs://allx/x",
        "gs://all.evil.example/x",
        "gs://all:80/x",
        "s3a://audit/shop",
        "s3a://audit/kafka2",
        "s3a://audit",
        "s3a:///audit/kafka",
        "file:///var/lib/rackspan",
        "hdfs://all/x",
    ],
)
def test_location_outside_the_allowed_locations_is_refused(location):
    assert "historyLocation is below none of scan.allowedLocations" in refused(historyLocation=location)
    assert refused(scan_setup(trusted=("kafka",)), historyLocation=location) is None


@pytest.mark.parametrize(
    "location",
    [
        "gs://all/x?endpoint_override=evil.example&scheme=http",
        "gs://key:secret@all/x",
        "abfss://key:secret@acme.dfs.core.windows.net/x",
        "abfss://audit@acme.dfs.core.windows.net@evil.example/x",
        "abfss://audit@acme.dfs.core.windows.net:443/x",
        "gs://all@evil.example/x",
        "gs://all/x#y",
        "gs://all/../elsewhere",
        "gs://all/%2e%2e/elsewhere",
        "gs://all/./x",
        "gs://all//x",
        "gs://all/$(POD_NAME)",
        "gs://all\\..\\x",
        "gs://all/x\n",
        "gs://all/\x00",
        "GS://all/x",
        "all/x",
    ],
)
@pytest.mark.parametrize("trusted", [(), ("*",)])
def test_ambiguous_location_is_refused_for_every_namespace_and_not_in_the_message(location, trusted):
    failure = scan_setup(trusted=trusted, allowance=ALLOWED).failure(topology(historyLocation=location))
    assert failure.reason == Reason.SCAN_NOT_ALLOWED
    assert location not in failure.message
    assert "secret" not in failure.message


@given(st.text(alphabet="/.%?#@:\\$ \n\x00abcs3", max_size=40))
def test_location_within_another_has_no_segments_that_leave_it(tail):
    try:
        location = Location.parse(f"s3://bucket/own{tail}")
    except LocationError:
        return
    if location.within(Location.parse("s3a://bucket/own")):
        assert not {"..", ".", ""}.intersection(location.segments)
        assert tail == "" or tail.startswith("/")
        assert not set("%?#@\\$").intersection(tail) - {"@"}


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://key:secret@b/x?endpoint_override=h#y", "s3://b/x"),
        ("s3://b/x", "s3://b/x"),
        ("s3://key:sec/ret@b/x", "s3://b/x"),
        ("s3://b/x@y", "s3://b/x@y"),
        ("abfss://audit@acme.dfs.core.windows.net/x?sig=y", "abfss://audit@acme.dfs.core.windows.net/x"),
        ("abfs://audit@acme.dfs.core.windows.net", "abfs://audit@acme.dfs.core.windows.net"),
        ("abfss://key:secret@acme.dfs.core.windows.net/x", "abfss://acme.dfs.core.windows.net/x"),
        ("/data/a#b?", "/data/a#b?"),
    ],
)
def test_location_is_shown_without_its_secrets(location, shown):
    assert without_secrets(location) == shown


@pytest.mark.parametrize("mount", [None, "/var/lib/rackspan", "/var/lib/rackspan/x", "/data/deep"])
@pytest.mark.parametrize("path", [None, "kafka/prod", "kafka/prod/below", "kafka/prod/"])
def test_allowed_claim_is_accepted_with_valid_mount_and_sub_path(mount, path):
    asked = volume(**({"subPath": path} if path else {})) | ({"historyLocation": mount} if mount else {})
    assert refused(**asked) is None


@pytest.mark.parametrize("mount", ["/opt/rackspan", "/etc", "/", "/var/lib", "/database"])
def test_volume_mount_outside_the_data_directories_is_refused(mount):
    assert "historyLocation" in refused(**volume(), historyLocation=mount)


@pytest.mark.parametrize("path", ["shop/prod", "kafka", "kafka/other", "kafka/prod/../other", "kafka//prod", "./kafka"])
def test_sub_path_of_another_topology_is_refused(path):
    assert "historyVolume.subPath" in refused(**volume(subPath=path))


def test_claim_that_is_not_allowed_is_refused():
    assert "scan.allowedClaims" in refused(historyVolume={"claimName": "payroll"})


@pytest.mark.parametrize(
    ("compliance", "value"),
    [
        ({"resources": {"requests": {"cpu": "2001m"}}}, "scan.limits.cpu"),
        ({"resources": {"limits": {"memory": "5Gi"}}}, "scan.limits.memory"),
        ({"resources": {"limits": {"memory": 4294967297}}}, "scan.limits.memory"),
        ({"resources": {"limits": {"memory": "1Pi"}}}, "scan.limits.memory"),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "scan.trustedNamespaces"),
        ({"engine": "SparkOnKubernetes", "executors": {"instances": 17}}, "scan.limits.executorCores"),
        ({"engine": "SparkOnKubernetes", "executors": {"memory": "17g"}}, "scan.limits.executorMemory"),
        ({"activeDeadlineSeconds": 14401}, "scan.limits.activeDeadlineSeconds"),
        ({"backoffLimit": 4}, "scan.limits.backoffLimit"),
        ({"successfulJobsHistoryLimit": 6}, "scan.limits.jobsKept"),
        ({"failedJobsHistoryLimit": 6}, "scan.limits.jobsKept"),
        ({"concurrencyPolicy": "Allow"}, "scan.trustedNamespaces"),
        ({"schedule": "* * * * *"}, "scan.limits.scheduleIntervalSeconds"),
        ({"schedule": "0,59 0,23 * * *"}, "scan.limits.scheduleIntervalSeconds"),
    ],
)
def test_setting_above_a_limit_of_the_chart_is_refused_with_the_name_of_the_value(compliance, value):
    assert value in refused(**compliance)
    assert refused(scan_setup(trusted=("kafka",)), **compliance) is None


@pytest.mark.parametrize(
    "compliance",
    [
        {"resources": {"requests": {"cpu": 2, "memory": "4096Mi"}, "limits": {"cpu": "2000m"}}},
        {"engine": "SparkOnKubernetes", "executors": {"instances": 16, "memory": "2g"}},
        {"schedule": "*/15 * * * *", "activeDeadlineSeconds": 14400, "backoffLimit": 3},
        {"schedule": "0 3 * * *", "concurrencyPolicy": "Replace"},
    ],
)
def test_settings_within_the_limits_are_accepted(compliance):
    assert refused(**compliance) is None


def test_retention_must_be_within_the_limit_of_history_days():
    setup = scan_setup(allowance=allowance(("gs://all",), history_days=30))
    assert "scan.limits.historyDays" in refused(setup, historyLocation="gs://all")
    assert "scan.limits.historyDays" in refused(setup, historyLocation="gs://all", retentionDays=31)
    assert refused(setup, historyLocation="gs://all", retentionDays=30) is None
    assert refused(setup, schedule="@daily") is None


@pytest.mark.parametrize(
    ("locations", "limits"),
    [(["b"], {}), (["s3://u:p@b"], {}), ([], {"cpu": "many"}), ([], {"gpu": 1}), ([], {"backoffLimit": "3"})],
)
def test_invalid_lists_and_limits_of_the_chart_raise_an_error(locations, limits):
    with pytest.raises(ValueError, match=r"."):
        Allowance.read(locations, (), limits)


def test_quantities_are_compared_as_numbers():
    assert parse_quantity("1024Mi") == parse_quantity("1Gi") == parse_quantity(2**30)
    assert parse_quantity("1500m") == parse_quantity("1.5")


def test_shortest_interval_of_a_schedule_is_computed():
    assert Schedule.parse("0 3 * * *", None).shortest_interval == 86400
    assert Schedule.parse("0,10 3 1 1 *", None).shortest_interval == 600
