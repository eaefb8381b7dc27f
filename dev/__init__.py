"""The real stack on one machine: a Kubernetes control plane, a Kafka cluster, and nodes and pods for its brokers.

`.venv/bin/python -m dev up` starts it. The fixtures of tests and the demo use the same code. Everything listens on
loopback, stores its state outside of the clone, and ends with the process that started it, unless `stay` is called.
"""
