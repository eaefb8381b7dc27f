"""Observe, decide, act: the work of the operator, independent of the framework that calls it.

From top to bottom. A layer uses only the layers below it, and the packages on one line do not use each other:

    manager                                  the loops, their liveness, and the routing of Kubernetes events to them
    topology_loops                           a loop per RackTopology, and one for KafkaTopics without a RackTopology
    topology_controller                      one RackTopology
    dry_run, uninstall                       plans for the command line, the clean-up
    topics/  scans/  racks/                  KafkaTopics in batches; scans; rack ids and restarts
    plans/                                   the plan of a topology: made, reviewed, approved, carried out
    specs/                                   what KafkaTopics request, and what they are allowed to have
    cluster/                                 the current state of one Kafka cluster: client, racks, status
    dependencies, cache                      what the loops share; Kubernetes objects as last seen
    runtime/                                 informers, work queue, controllers, threads, Lease, writers
    audit_log                                one line for each change in Kafka
    ports, failures                          the interfaces to Kafka and Kubernetes, and their failures

Decisions are pure functions of the object, the state of Kafka and the state of the cluster. Modules of such functions
say `Pure.` in their docstring. `cache`, `runtime.workqueue`, `cluster.observer` and the reconcilers hold the mutable
state, which belongs to one event loop. The packages `kafka` and `kube` implement the ports, and `main` connects them.
"""
