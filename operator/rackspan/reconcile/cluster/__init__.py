"""One RackTopology: the current state of its cluster, and the status derived from that state.

observer ──┬─ client ── batching       the connection to Kafka: few calls, each with many topics
           ├─ racks                    from nodes and pods to the rack tree, with drift and missing racks
           ├─ cordons                  the cordons of drained brokers
           └──> state                  the inputs of every decision about topics
                  └──> topology_status ── drain_status, broker_events
"""
