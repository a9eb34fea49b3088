"""The web console's server: a process of its own beside the brokers.

It reaches the cluster as users' programs do: by Kafka's protocol, the brokers' metrics pages and
the bucket. The page itself is in `ui/`; its built files lie in `static/`.
"""
