"""
Observe, decide, act: what the operator does, without the framework that calls it.

From top to bottom; a layer knows those below it only, and the four packages of one line do not know each other:

    manager                                  what runs, and whether it lives
    routes                                   what Kubernetes reports, to the controllers that it concerns
    topology_loops                           a loop for each RackTopology, and one for topics without
    topology, orphans                        one RackTopology, and the KafkaTopics that name none
    dry_run, expectations                    a topology's plan for the command line, and what a scan checks
    topics/  scans/  racks/  reassignments/  KafkaTopics in batches; scans; rack ids and restarts; plans carried out
    cluster/, release                        one Kafka cluster as it is now: client, racks, status; the clean-up
    dependencies, cache                      what topologies' loops share; Kubernetes' objects as last seen
    runtime/                                 informers, work queue, controllers, threads, Lease, writers
    reassignment_ports, ports, failures      what is needed from outside, and what can go wrong there

Decisions are pure functions of the object, of what Kafka holds and of the cluster's state: the modules named
`decision`, `placement`, `deletion`, `ownership`, `status`, `events` and `racks`. What is remembered lives in `cache`,
`runtime.workqueue`, `cluster.observer` and the reconcilers, and belongs to one event loop. The rooms `kafka` and `kube`
implement the ports, and `main` wires them.
"""
