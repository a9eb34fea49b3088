"""From stored bytes to Arrow: pure functions on buffers.

Here: batch headers as columns (scan.py), where records keep their fields (positions.py, with two
finders), copying fields into Arrow (spans.py), and all of it over a stream (decoder.py).
Never here: Spark, the bucket, clocks.
"""
