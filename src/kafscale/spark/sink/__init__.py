"""Rows into topics: through brokers, or in bulk straight into segments."""
