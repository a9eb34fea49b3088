"""Questions and changes that go through brokers, by confluent-kafka: topics, groups, records."""
