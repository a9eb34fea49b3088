"""Users, roles and quotas, asked of brokers."""
