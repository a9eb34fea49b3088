"""A simulated world: one seed gives the time, the network, the stores and the order of things.

Here: the event loop and its processes (loop.py), clocks (clock.py), the network (network.py), the
bucket (store.py), the metadata store (metadata.py), a broker as a process (broker.py), and the
wall that keeps the real world out (isolation.py).
Next door: clients, scenarios and the checker (tests/simulation).
"""
