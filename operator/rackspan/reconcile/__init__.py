"""Observe, decide, act: what the operator does, without the framework that calls it.

The room declares the ports it needs (`ports`); the rooms `kafka` and `kube` implement them and `main` wires them.

    controller ── routes what Kubernetes tells ──> cluster ──┬─ lookout ── session, racks ──> scene
      (inventory)                              (one topology) └─ topic_loop ── worker ── decision, placing
                                                                  (queue)      goodbye ── deletion
                                                                               verdict, situation ──> statuses

Decisions are pure functions of the object, of what Kafka holds and of the scene: `racks`, `decision`, `placing`,
`deletion`, `access`, `verdict`, `situation`, `announce`, `batches`. State lives in `inventory`, `queue`, `session`,
`lookout` and `topic_loop`, and belongs to one event loop.
"""
