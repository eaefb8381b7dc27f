"""One RackTopology: its cluster as observed now, and the status that follows.

observer ──┬─ client ── batching       the connection to Kafka: few calls, each with many topics
├─ racks                    from nodes and pods to the rack tree, and what does not agree with it
├─ cordons                  of brokers that are drained
└──> state                  what every decision about topics depends on
└──> topology_status ── drain_status, broker_events
"""
