"""What an import can be asked to keep."""

from enum import StrEnum


class KeptAssignment(StrEnum):
    """Which topics get their present replicas as an explicit assignment."""

    UNFAIR = "unfair"
    ALWAYS = "always"
    NEVER = "never"
