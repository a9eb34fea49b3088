"""What the APIs of share groups have in common: taking records, deciding about them, leaders.

Next door: the APIs (apis/), sessions (calls/share_sessions.py), which member gets which record
(kafscale/subscriptions).
"""
