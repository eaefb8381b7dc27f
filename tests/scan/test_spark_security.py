"""The driver of a scan rejects executors in another JVM that do not have the secret of the run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from rackspan.reconcile.scans.scan_manifests import SPARK_SECURITY

QUICK = "-XX:TieredStopAtLevel=1"
SPARK = Path(pyspark.__file__).parent
DRIVER = """
import json, sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local-cluster[1,1,512]")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
# A shuffle between driver and executor, and rows that come back.
total = spark.range(1000).repartition(2).selectExpr("sum(id)").collect()[0][0]
port = spark.sparkContext.getConf().get("spark.driver.port")
print(json.dumps({"total": total, "port": port, "app": spark.sparkContext.applicationId}), flush=True)
sys.stdin.readline()
spark.stop()
"""
LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.codegen.wholeStage": "false",
}


def driver(settings, folder):
    """Start a driver with one executor. The driver prints a sum that the executor has computed."""
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, json.dumps({**LOCAL, **settings})],
        env={**os.environ, "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "driver.log").open("w"),
        text=True,
    )


def stranger(port, app):
    """Start an executor that the driver did not request and that has no secret. Its output is captured."""
    command = [
        *("java", QUICK, "-cp", f"{SPARK}/jars/*", "org.apache.spark.executor.CoarseGrainedExecutorBackend"),
        *("--driver-url", f"spark://CoarseGrainedScheduler@127.0.0.1:{port}", "--executor-id", "999"),
        *("--hostname", "127.0.0.1", "--cores", "1", "--app-id", app, "--resourceProfileId", "0"),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def started():
    """Processes that end with the test."""
    made = []
    yield made.append
    for process in made:
        process.kill()
        process.wait(300)


def test_driver_rejects_an_executor_without_the_secret(tmp_path, started):
    scan = driver({**SPARK_SECURITY, "spark.authenticate.secret": "of this run only"}, tmp_path)
    started(scan)
    seen = json.loads(scan.stdout.readline() or "{}")
    assert seen.get("total") == 499500, (tmp_path / "driver.log").read_text()[-2000:]
    other = stranger(seen["port"], seen["app"])
    started(other)
    said, _ = other.communicate(timeout=600)
    assert other.returncode != 0, said
