"""Who a client is, what it may do, what is audited, and text that is kept secret."""
