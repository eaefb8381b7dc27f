"""A Kubernetes control plane and Kafka brokers as processes of this machine: get, start, find and end them."""
