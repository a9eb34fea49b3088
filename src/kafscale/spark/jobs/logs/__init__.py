"""Logs as jobs find them in the bucket: which, with which objects and records, and what may go.

selection.py finds the logs of the chosen topics; idle_tails.py makes abandoned tails part of the
history; log_starts.py raises log starts; removal.py deletes objects; object_io.py reads and writes
them; batch_records.py opens the batches in them.
"""
