"""The cluster behind the proxy: connections, metadata, the ledger, writing and reading."""
