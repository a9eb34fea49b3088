"""Kubernetes for tests: an API server in memory, its controllers, and a kubelet of processes.

The API server and the controllers are fakes, and so named. Pods are real: a broker is a process of
`kafscale serve`, an etcd is an etcd, on an address of its own.
"""
