"""Kafka clients in processes of their own.

A native client is not safe from the answers that it reads: librdkafka 2.16 ends its process at a null cluster id, or at
a string that is not UTF-8. So the operator has no Kafka client in its own process. `workers` starts a process for each
trust boundary and sends it calls, `calls` has the messages, `process` runs there, and `confinement` limits it.
"""
