"""Carrying out plans: pass by pass, from what Kafka says is under way and what was recorded before each call."""
