"""
KafkaTopics from what others wrote: a cluster, Strimzi's KafkaTopics, topicctl's files. Pure: text in, text out.

    yaml_nodes                  YAML with the line of everything
    manifest_documents          files of objects, one document apart from the other
    imported_topics             what is read: definitions, what is skipped, refused, and remarks on what is lost
    imported_configs            what a KafkaTopic can hold
    names, imported_references  what its object may be called, and its RackTopology
    cluster_import, strimzi, topicctl   one source each, into definitions; shared_fields is what files have in common
    consistency                 what definitions say together
    present                     definitions as Kafka has them now, and the proof that they change nothing
    topic_rules                 what the CustomResourceDefinition asks of a KafkaTopic
    yaml_text                   documents as YAML
    manifests                   definitions into objects and YAML, and objects back into specs
"""
