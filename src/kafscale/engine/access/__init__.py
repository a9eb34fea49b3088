"""What the metadata store says about access, kept at hand by every broker.

May use: access, metadata. Never here: rules (access/), requests (gateways/).
"""
