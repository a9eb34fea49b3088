"""Test suites that other projects wrote for Kafka brokers, run against ours."""
