"""A fleet on this machine: brokers with a real etcd and a real S3 server, kept alive.

In this room: finding the programs, ports, processes, the supervisor over them, and the file that
tells others where everything is. Next door: the command a person types (cli/serving/cluster.py).
Never here: what a broker does.
"""
