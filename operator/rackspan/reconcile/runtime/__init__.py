"""The runtime of all control loops: informers, work queue, controllers, threads, Lease, writers."""
