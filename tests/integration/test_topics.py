"""A KafkaTopic becomes a topic, and stays what it says."""


def test_a_new_topic_is_created_and_becomes_ready(shop, topics):
    shop.create_topic("orders", partitions=6)
    shop.until_ready("orders")
    assert len(topics.replicas(shop.kafka_name("orders"))) == 6
