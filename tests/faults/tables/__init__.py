"""Runners of the pipeline under attack: rows of tables = records of topics, once.

run.py plays a run: a broker, an S3 server, runners and a catalog behind doors that misbehave.
writers.py has the producers, catalog.py a reader; judge.py reads the tables with an engine that
knows nothing of us.
"""
