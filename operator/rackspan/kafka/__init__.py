"""The only package that uses Kafka clients. It implements the ports of `rackspan.reconcile.ports`."""
