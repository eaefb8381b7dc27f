"""Publishes each node's rack id as a ConfigMap, and restarts brokers that a restart would give another one.

    manager ──> publish     the ConfigMaps, and the condition RacksPublished
    (cache) ──> annotate    the rack of its node on each broker's pod
            ──> restart ─── restart_decision   which broker next, what became of the last, Restarting

A ConfigMap is written when what it says changes, or when somebody else changed it; it goes when its RackTopology does,
or when its namespace takes back its label. In doubt it stays, because brokers that start would wait for it.
"""
