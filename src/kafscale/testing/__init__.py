"""Test kit: clocks that stand still, stores that fail on purpose, brokers in a process."""
