"""The option of an import that keeps present replicas."""

from enum import StrEnum


class KeptAssignment(StrEnum):
    """The topics that get their present replicas as an explicit assignment."""

    UNFAIR = "unfair"
    ALWAYS = "always"
    NEVER = "never"
