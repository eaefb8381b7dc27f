"""Publishes each node's rack id as a ConfigMap, and restarts brokers that a restart would give another one.

    handlers ── manager ──> reconciler ──┬─ publication   what goes where, and the ConfigMap
                (cache)                  └─ status        the condition RacksPublished

    handlers ── manager ──> restarts ────┬─ restart_decision   which broker next, and what became of the last
                                         └─ restart_status     the condition Restarting

Only `reconciler` and `restarts` do I/O and hold state. A ConfigMap is written when what it says changes, or when
somebody else changed it; it goes when its RackTopology does, or when its namespace takes back its label. In doubt it
stays, because brokers that start would wait for it.
"""
