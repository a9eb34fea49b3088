"""What the requests about delegation tokens share.

A client may ask for tokens if it has proved who it is, and not by a token: else a token could make
others that outlive it.
"""

from kafscale.gateways.kafka.calls.call import Call
from kafscale.model.security.access import ANONYMOUS


def may_use_tokens(call: Call) -> bool:
    """Whether requests about tokens are answered on this connection."""
    is_by_token = call.login is not None and call.login.is_by_token
    return call.principal != ANONYMOUS and not is_by_token
