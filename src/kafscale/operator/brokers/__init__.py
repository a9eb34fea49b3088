"""What the operator asks of brokers: their pages, as a client, and whether a config will do."""
