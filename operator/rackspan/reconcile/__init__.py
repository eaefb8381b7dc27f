"""
Observe, decide, act: what the operator does, without the framework that calls it.

From top to bottom; a layer knows those below it only, and `topics` and `scans` do not know each other:

    manager                       routes what Kubernetes tells to whom it concerns
    topology, orphans             one RackTopology, and the KafkaTopics that name none
    topics/       scans/          KafkaTopics in batches; compliance scans
    cluster/                      one Kafka cluster as it is now: its client, brokers, racks, status
    cache                         Kubernetes' objects as last seen
    runtime/                      work queue, debounce, threads, liveness, Lease, writers of statuses and finalizers
    ports, failures               what is needed from outside, and what can go wrong there

Decisions are pure functions of the object, of what Kafka holds and of the cluster's state: the modules named
`decision`, `placement`, `deletion`, `ownership`, `status`, `events` and `racks`. What is remembered lives in `cache`,
`runtime.workqueue`, `cluster.observer` and the reconcilers, and belongs to one event loop. The rooms `kafka` and `kube`
implement the ports, and `main` wires them.
"""
