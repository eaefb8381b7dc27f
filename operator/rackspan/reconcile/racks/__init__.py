"""Publishes each node's rack id as a ConfigMap, for the init containers of brokers and clients.

    handlers ── manager ──> reconciler ──┬─ publication   what goes where, and the ConfigMap
                (cache)                  └─ status        the condition RacksPublished

Only `reconciler` does I/O and holds state. A ConfigMap is written when what it says changes, or when somebody else
changed it; it goes when its RackTopology does, or when its namespace takes back its label. In doubt it stays, because
brokers that start would wait for it.
"""
