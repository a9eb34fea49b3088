"""Topics as rows: the data source, batch and stream, and SQL on it.

What Spark calls is here (source.py, stream.py); plan/ is what the driver does, rows/ what a worker
does. Both read the bucket (fetching.py) and named snapshots (pins.py).
"""
