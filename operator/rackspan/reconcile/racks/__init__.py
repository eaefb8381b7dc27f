"""Publishes the rack ids of all nodes as ConfigMaps, and restarts brokers whose rack id a restart would correct.

    manager ──> publish     the ConfigMaps, and the condition RacksPublished
    (cache) ──> annotate    annotates each broker's pod with the rack of its node
            ──> restart ─── restart_decision   the next broker, the progress of a restart, Restarting

The operator writes a ConfigMap when its content changes, or when another client has changed it. The operator deletes it
when its RackTopology is deleted, or when its namespace removes its label. In doubt the ConfigMap stays, because brokers
that start would wait for it.
"""
