"""Settings of topics, groups, brokers and tables: names, defaults, legal values."""
