"""Tables a topic can be exported to: bare Parquet, Delta Lake, Apache Iceberg.

table.py is what the three kinds have in common, with one file for each; place.py is the folder a
table lies in; schemas.py and ddl.py say what its columns are, values.py where they come from;
backlog.py finds what is new, unit.py turns it into files by writer.py, dead_letters.py keeps what
does not parse.
"""
