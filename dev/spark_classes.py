"""The archive of Spark classes in this virtual environment, like that in the image of the scan."""

import sys
from pathlib import Path

from dev.paths import REPOSITORY
from dev.progress import need, run
from rackspan.jobs.spark.spark_session import CLASS_ARCHIVE


def ensure_class_archive() -> Path:
    """Return the archive. Write it if it is missing or older than PySpark or Java."""
    java = Path(need("java", "run Spark")).resolve()
    newest = max(path.stat().st_ctime for path in (java, CLASS_ARCHIVE.with_name("jars")))
    if not CLASS_ARCHIVE.exists() or CLASS_ARCHIVE.stat().st_ctime < newest:
        command = [sys.executable, "-m", "rackspan.jobs.spark.class_archive"]
        run(command, "recording Spark's classes for fast starts: about half a minute, once", cwd=REPOSITORY)
    return CLASS_ARCHIVE
