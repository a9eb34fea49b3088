"""Metadata in etcd, shared by a fleet. The one room that knows grpcio; extra `etcd`."""
