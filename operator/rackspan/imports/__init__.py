"""
KafkaTopics from what others wrote: a cluster, Strimzi's KafkaTopics, topicctl's files. Pure: text in, text out.

    yaml_nodes, documents         YAML with the line of everything, one document apart from the other
    topics                        what is read: definitions, what is skipped, refused, and remarks on what is lost
    configs, names                what a KafkaTopic can hold, and what its object may be called
    cluster, strimzi, topicctl    one source each, into definitions
    present                       definitions as Kafka has them now, and the proof that they change nothing
    manifests                     definitions into objects and YAML, and objects back into specs
"""
