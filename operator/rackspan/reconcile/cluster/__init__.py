"""
One RackTopology: what Kafka and the nodes say now, and the status that follows.

    observer ──┬─ client ── credentials, group_commit     the connection to Kafka
               ├─ racks                                   nodes and broker pods → the rack tree, drift and gaps
               └──> state                                 what every decision about topics depends on
                      └──> status ── drains, deletion     the conditions; `gauges`, `broker_events` tell the same
"""
