"""Commands that say who may do what: users, roles."""
