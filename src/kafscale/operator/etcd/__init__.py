"""Work on the etcd of a cluster: questions, starting a member, snapshots and loading them.

Here: what runs in Jobs and init containers. Next door: the objects that run it (parts/etcd.py,
parts/jobs.py).
"""
