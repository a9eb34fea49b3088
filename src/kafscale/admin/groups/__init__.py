"""Consumer groups, asked of brokers: members, committed offsets, resets, deletions."""
