"""
The KafkaTopics of one RackTopology, in batches: from what Kafka holds to a status for each.

    reconciler ──┬─ admission ── ownership            which objects may have a topic, and which one decides about it
                 ├─ batch ──┬─ decision ── placement, configs, limits     what to do, without moving a replica
                 │          └─ audit                                      a log line for each change
                 ├─ creation_claims                   recorded before a topic is created
                 ├─ plan                              which replicas would have to move
                 ├─ finalizer ── deletion, deletion_gate                  whether a deletion reaches Kafka
                 └─ status_updates ── status ── ready_condition, compliant_condition, conditions
"""
