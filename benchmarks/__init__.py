"""Measurements against other brokers on the same machine."""
