"""An Iceberg REST catalog over the tables in a bucket: engines read topics as tables.

rest.py answers requests, pure but for the tables it is given; topic_tables.py finds those in the
bucket; server.py listens.
"""
