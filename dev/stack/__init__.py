"""Kubernetes' control plane and Kafka brokers as processes of this machine: got, started, found again and ended."""
