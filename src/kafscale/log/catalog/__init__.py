"""What a namespace holds besides logs: topic descriptors, lane tables, checkpoints."""
