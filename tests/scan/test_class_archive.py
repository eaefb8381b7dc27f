"""The archive of Spark's classes: the JVM loads classes from it, and ignores an archive of another Java."""

import json
import shutil
import subprocess
import sys

import pytest

from rackspan.jobs.spark.spark_session import CLASS_ARCHIVE

SCAN = """
import sys
from pathlib import Path
from rackspan.__main__ import main
from rackspan.jobs.spark import spark_session
spark_session.CLASS_ARCHIVE = Path(sys.argv.pop(1))
main()
"""


@pytest.mark.skipif(shutil.which("jcmd") is None, reason="only a JDK has jcmd")
def test_spark_session_loads_most_classes_from_the_archive(spark):
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    counters = subprocess.check_output(["jcmd", str(pid), "PerfCounter.print"], text=True)
    counted = dict(line.split("=") for line in counters.splitlines() if line.startswith("java.cls."))
    assert CLASS_ARCHIVE.exists()
    assert int(counted["java.cls.sharedLoadedClasses"]) > int(counted["java.cls.loadedClasses"])


def test_unusable_class_archive_is_ignored_without_a_message(tmp_path):
    archive = tmp_path / "of another java" / "classes.jsa"
    archive.parent.mkdir()
    archive.write_bytes(b"another version")
    scan = ("scan", "--synthetic", "1000", "--engine", "spark", "--master", "local[1]", "--exit-zero", "-o", "json")
    ran = subprocess.run([sys.executable, "-c", SCAN, str(archive), *scan], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["state"] == "Completed"
    assert "archive" not in ran.stderr
