"""Records through brokers: producing, consuming, and searching partitions."""
