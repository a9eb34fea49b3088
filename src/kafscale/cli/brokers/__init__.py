"""Commands that ask brokers, as Kafka clients do.

Here: brokers, topics, configs, groups, produce, consume, cost.
"""
