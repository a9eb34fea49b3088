"""What all proxies agree on by rows of the ledger: who is there, topics, committed offsets."""
