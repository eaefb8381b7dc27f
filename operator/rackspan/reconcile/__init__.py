"""Observe, decide, act: what the operator does, without the framework that calls it.

The room declares the ports it needs (`ports`); the rooms `kafka` and `kube` implement them and `main` wires them.

    controller ── routes what Kubernetes tells ──> cluster ──┬─ observer ── session, racks ──> state
      (cache)                              (one topology) └─ topic_loop ── worker ── decision, placing
                                                                  (queue)      finalizer ── deletion
                                                                               verdict, inputs ──> statuses

Decisions are pure functions of the object, of what Kafka holds and of the state: `racks`, `decision`, `placing`,
`deletion`, `access`, `verdict`, `inputs`, `announce`, `batches`. State lives in `cache`, `queue`, `session`,
`observer` and `topic_loop`, and belongs to one event loop.
"""
