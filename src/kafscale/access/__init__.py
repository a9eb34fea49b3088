"""Who a client is and what it may do, as rules: the same for every door.

Here: pure functions and values, such as access control lists and the decision they lead to.
Next door: the nouns (model/security/access.py), where rows are kept and watched (engine/access/),
what each request of a protocol asks for (gateways/kafka/access/).
Never here: a clock, a socket, a store, a protocol's bytes.
"""
