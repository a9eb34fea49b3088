"""The data pipeline: Spark on the objects themselves, without a broker.

bucket.py and wiring.py reach the store; splits.py, source.py and stream.py make topics into
DataFrames; units.py runs work whose bytes never enter Spark; jobs/ has one job per file.
"""
