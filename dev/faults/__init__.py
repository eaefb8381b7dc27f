"""Faults on purpose: `rackspan apply` killed at every call, and a Kafka that breaks under it."""
