"""What tests and benchmarks start and talk to: brokers, clients, checkers."""
