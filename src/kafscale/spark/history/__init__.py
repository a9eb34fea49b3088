"""A topic as one table: what is in its lake table from there, the rest from the log.

parts.py says where the two meet: an exact offset of each partition. The table's files are read by
Spark itself where it can reach them (frames.py), else by the source's own workers (files.py), which
source.py hands to Spark. queries.py runs a query of SQL; pruning.py finds the columns it needs.
"""
