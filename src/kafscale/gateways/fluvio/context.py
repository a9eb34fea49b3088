"""What all Fluvio connections of a broker share.

Here: the engine, who may do what, the threads, SmartModules.
Next door: one connection (session.py).
"""

from dataclasses import dataclass, field
from typing import Final

from kafscale.engine.engine import Engine
from kafscale.gateways.client_log import ClientLog
from kafscale.gateways.fluvio.smart_modules.chains import ModuleLimits, SmartModules
from kafscale.gateways.workers import Workers
from kafscale.model.security.access import AllowAll, Authorizer
from kafscale.model.security.audit import Audit, NoAudit

# Clients that keep their offsets in the cluster want this topic to be there. It holds no records.
OFFSETS_TOPIC: Final = "consumer-offset"


@dataclass(slots=True)
class FluvioContext:
    """What all Fluvio connections of a broker share."""

    engine: Engine
    longest_wait_s: float
    client_log: ClientLog
    workers: Workers = field(default_factory=Workers)
    authorizer: Authorizer = field(default_factory=AllowAll)
    audit: Audit = field(default_factory=NoAudit)
    smart_modules: SmartModules = field(default_factory=lambda: SmartModules(ModuleLimits()))
