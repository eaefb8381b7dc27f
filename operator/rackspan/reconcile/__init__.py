"""Observe, decide, act: what the operator does, without the framework that calls it.

From top to bottom; a layer knows those below it only, and the packages of one line do not know each other:

    manager                                  what runs, whether it lives, and whom what Kubernetes reports concerns
    topology_loops                           a loop for each RackTopology, and one for KafkaTopics that name none
    topology_controller                      one RackTopology
    dry_run, uninstall                       plans for the command line, the clean-up
    topics/  scans/  racks/                  KafkaTopics in batches; scans; rack ids and restarts
    plans/                                   the plan of a topology: made, reviewed, approved, carried out
    specs/                                   what KafkaTopics ask for, and what they may have
    cluster/                                 one Kafka cluster as it is now: client, racks, status
    dependencies, cache                      what loops share; Kubernetes' objects as last seen
    runtime/                                 informers, work queue, controllers, threads, Lease, writers
    audit_log                                a line for each change in Kafka
    ports, failures                          what is needed from outside, and what can go wrong there

Decisions are pure functions of the object, of what Kafka holds and of the cluster's state: such modules
say `Pure.` in their docstring. What is remembered lives in `cache`, `runtime.workqueue`, `cluster.observer` and the
reconcilers, and belongs to one event loop. The rooms `kafka` and `kube` implement the ports, and `main` wires them.
"""
