"""Tables a topic can be exported to: bare Parquet, Delta Lake, Apache Iceberg.

place.py is the folder a table lies in; schemas.py and ddl.py say what its columns are; writer.py
makes files; table.py is what the three kinds have in common, one file for each kind.
"""
