"""What a scan can be asked to run on."""

from enum import StrEnum


class EngineChoice(StrEnum):
    """What reads and judges a cluster: this process, or Spark. Both find the same."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"
