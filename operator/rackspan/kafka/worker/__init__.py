"""Kafka clients in separate processes.

Responses can crash a native client: librdkafka 2.16 ends its process on a null cluster id, or on a string that is not
UTF-8. So the operator has no Kafka client in its own process. `workers` starts a process for each trust boundary and
sends calls to it, `calls` has the messages, `process` runs in the worker process, and `confinement` limits the process.
"""
