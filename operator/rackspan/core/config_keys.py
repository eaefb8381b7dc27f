"""Keys of Kafka's topic configs that several rooms read."""

from typing import Final

MIN_INSYNC: Final = "min.insync.replicas"
