"""Fault injection: kill `rackspan apply` and the operator at every call, and break Kafka and Kubernetes."""
