"""Clients' connections: the addresses that the proxy opens, and the order of requests on each."""
