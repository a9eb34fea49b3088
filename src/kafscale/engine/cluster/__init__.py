"""Which brokers there are, and which of them owns a log or a group.

May use: metadata, model. Never here: topics, logs.
"""
