"""Commands that ask brokers, as Kafka clients do.

Here: `records` (produce, consume), `groups`, `access` (users, roles), and brokers, topics, configs,
transactions and cost.
"""
