"""Observe, decide, act: what the operator does, without the framework that calls it.

The room declares the ports it needs (`ports`); the rooms `kafka` and `kube` implement them and `main` wires them.
Decisions are pure functions (`racks`, `topic`, `topology`); the only loops are in `cluster` and `controller`.
"""
