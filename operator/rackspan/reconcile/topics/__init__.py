"""
The KafkaTopics of one RackTopology, in batches: from what Kafka holds to a status for each.

    reconciler ──┬─ ownership                        which object decides about which topic
                 ├─ batch ──┬─ decision ── placement, configs, limits     what to do, without moving a replica
                 │          └─ audit                                      a log line for each change
                 ├─ plan                             which replicas would have to move
                 ├─ finalizer ── deletion, deletion_gate                  what the end of an object means for Kafka
                 └──> status, events
"""
