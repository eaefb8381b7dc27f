"""Keys of Kafka's topic configs that several packages read."""

from typing import Final

MIN_INSYNC: Final = "min.insync.replicas"
