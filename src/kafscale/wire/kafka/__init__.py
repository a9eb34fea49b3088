"""The Kafka protocol as tables: frames, headers, messages, error codes."""
