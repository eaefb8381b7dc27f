"""The only room that knows the kubernetes client: it implements the ports of `rackspan.reconcile.ports`."""
