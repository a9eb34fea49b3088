"""Tables a topic can be exported to: bare Parquet, Delta Lake, Apache Iceberg.

table.py is what the three kinds have in common, with one file for each; tables.py opens one by its
name; table_folder.py is the folder it lies in. schemas.py says what its columns are, evolution.py
how they grow with a registry's schemas (spark/values reads the values). backlog.py finds what is
new, unit.py turns it into files by writer.py, dead_letters.py keeps what does not parse,
attempts.py deletes what crashed exports left behind.
"""
