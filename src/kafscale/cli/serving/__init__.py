"""Commands that run brokers, or prepare to run them: serve, doctor, recover, cluster, demo."""
