"""What reconciling runs on, whatever is reconciled: informers, queue, controllers, threads, Lease, writers."""
