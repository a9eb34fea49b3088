"""Proof under faults: real clients, real servers, a nemesis, and a judge of what was promised.

history.py    what happened, as plain data, and its file
checker.py    what must not have happened (pure)
report.py     figures per nemesis (pure)
schedule.py   a seed becomes a list of faults (pure)
places.py     the topics, of every kind, and their partitions under one numbering (pure)
links.py      TCP wires that can be cut; s3_proxy.py a bucket's door that can misbehave
cluster.py    etcd, S3 server and brokers as processes, each broker behind wires of its own
nemesis.py    carries out a fault and heals it
workers.py, members.py, movers.py, neighbours.py, raw.py   clients that note what they were told
run.py        one run from start to verdict; scenarios.py the bars, each by its name
"""
