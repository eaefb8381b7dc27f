"""The real stack on one machine: a Kubernetes control plane, a Kafka cluster, and the nodes and pods that join them.

`.venv/bin/python -m dev up` starts it; the tests' fixtures and the demo use the same code. Everything listens on
loopback, keeps its state outside the clone, and ends with the process that started it unless it was asked to stay.
"""
