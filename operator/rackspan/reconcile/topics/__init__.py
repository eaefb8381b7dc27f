"""Reconciles the KafkaTopics of one RackTopology in batches, from the topics in Kafka to a status for each.

topics_reconciler ──┬─ batch ── topic_decision            read, decide, change, read back; no replica is moved
                    ├─ creation_claims                    recorded before a topic is created
                    ├─ topic_finalizer ── topic_deletion  whether a deletion reaches Kafka
                    └─ topic_status ── topic_conditions; topic_events
"""
