"""The demo: real brokers, a real API server, the operator, and `examples/` applied with kubectl."""
