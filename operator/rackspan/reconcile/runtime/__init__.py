"""What reconciling runs on, whatever is reconciled: queue, debounce, threads, liveness, Lease, writers."""
