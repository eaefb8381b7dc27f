"""What KafkaTopics request, and what they are allowed to have. Pure, except for the counts of `topic_quotas`.

ownership        which objects may have a topic, and which object owns it
topic_quotas     how much a namespace may have in Kafka
placement        replica lists, derived configs and compliance; the size limits of these computations
topic_configs    which configs differ, and which configs Kafka refuses
"""
