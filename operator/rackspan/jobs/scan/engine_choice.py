"""The engines among which a scan request can choose."""

from enum import StrEnum


class EngineChoice(StrEnum):
    """The engine that reads and judges a cluster: this process, or Spark. Both have the same results."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"
