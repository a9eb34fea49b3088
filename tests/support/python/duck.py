"""Statements for DuckDB, one per line of JSON; the rows of each come back as a line.

Run by an interpreter that has DuckDB and its extensions from PyPI, and nothing of the tests.
"""

import json
import sys

import duckdb
from duckdb_extensions import import_extension

for name in ("httpfs", "avro", "iceberg", "delta"):
    import_extension(name)
connection = duckdb.default_connection()
for name in ("httpfs", "avro", "iceberg", "delta"):
    connection.sql(f"LOAD {name}")
for line in sys.stdin:
    rows = connection.execute(json.loads(line)).fetchall()
    print(json.dumps(rows, default=lambda one: one.hex() if isinstance(one, bytes) else str(one)))
    sys.stdout.flush()
