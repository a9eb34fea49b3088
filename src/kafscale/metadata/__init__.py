"""Metadata: a small transactional key-value port and its adapters."""
