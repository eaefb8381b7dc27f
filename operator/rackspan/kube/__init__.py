"""The only package that uses the kubernetes client. It implements the ports of `rackspan.reconcile.ports`."""
