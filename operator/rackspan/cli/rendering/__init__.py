"""The formats of results: tables and text for people, JSON, YAML and Kafka's own file formats for programs."""
