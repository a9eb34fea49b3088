"""Pulsar's binary protocol: frames, commands and message metadata as bytes, in both directions."""
