"""The only room that knows Kafka clients: it implements the ports of `rackspan.reconcile.ports`."""
