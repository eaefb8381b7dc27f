"""What the operator does when Kubernetes tells of an object: one module per kind, and one for where brokers run."""
