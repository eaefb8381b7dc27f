"""
One RackTopology: its cluster as observed now, and the status that follows.

    observer ──┬─ client ── credentials, group_commit     the connection to Kafka
               ├─ racks                                   from nodes and pods to the rack tree, drift, gaps
               └──> state                                 what every decision about topics depends on
                      └──> status ── drains, deletion     the conditions; also `gauges`, `broker_events`
"""
