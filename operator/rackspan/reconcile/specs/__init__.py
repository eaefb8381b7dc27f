"""What a KafkaTopic asks for, and what it may have. Pure, but for the counts of `topic_quotas`.

ownership        which objects may have a topic, and which one decides about it
topic_quotas     how much a namespace may have in Kafka
placement        replica lists, derived configs and compliance; the size up to which they are computed
topic_configs    which configs differ, and which ones Kafka refuses
"""
