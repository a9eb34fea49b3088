"""The doors: sockets and protocols on one side, the verbs of the engine on the other.

Here: accepting connections (listener.py), one connection (connection.py), all connections of a
broker and their limits (connections.py). A folder per protocol: kafka/.
Next door: which listeners a broker has (broker/doors/listeners.py), what a request does (engine/).
"""
