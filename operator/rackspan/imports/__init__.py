"""
KafkaTopics from other sources: a cluster, Strimzi's KafkaTopics, topicctl's files. Pure: text in, text out.

    yaml_nodes                  YAML nodes with their line numbers
    manifest_documents          files of several objects, each document read separately
    imported_topics             the result types: definitions, skipped and refused topics, remarks on what is lost
    imported_configs            the configs that a KafkaTopic can have
    names, imported_references  the name of the KafkaTopic, and its RackTopology
    cluster_import, strimzi, topicctl   one source each, converted to definitions; shared_fields has their common parts
    consistency                 checks across several definitions
    present                     definitions with the present state in Kafka, and the proof that they change nothing
    topic_rules                 the rules of the CustomResourceDefinition for a KafkaTopic
    yaml_text                   YAML output
    manifests                   definitions converted to objects and YAML, and objects to specs
"""
