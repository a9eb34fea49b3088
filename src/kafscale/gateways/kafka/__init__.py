"""The Kafka door: the order of requests (session.py), their steps (router.py), one file per API
(apis/).

Never here: what a request does to topics, logs and groups; that is the engine's.
"""
