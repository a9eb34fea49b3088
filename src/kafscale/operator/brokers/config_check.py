"""Whether brokers will take the settings that the operator writes for them.

Here: the broker's own reader is asked, with the very variables of the pod. So a setting that
brokers do not know is refused before any broker restarts.
"""

from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.parts import security
from kafscale.operator.parts.brokers import broker_settings, environment
from kafscale.settings.loading import load
from kafscale.settings.sources import VARIABLES
from kafscale.settings.values import ConfigError

# What stands in the place of what only the pod knows.
_KNOWN_LATER = {"POD_NAME": "broker-0", "POD_NAMESPACE": "default"}


def config_problem(cluster: KafscaleCluster) -> str | None:
    """Why a broker would refuse to start with these settings; None if it would not."""
    wanted = broker_settings(cluster)
    if "listeners" in wanted or "advertisedListeners" in wanted:
        return "listeners: the operator sets them itself; leave them out of config.broker"
    variables = rendered(environment(cluster, ("etcd:2379",), ""))
    owned = {VARIABLES[name] for name in variables if name in VARIABLES}
    twice = sorted(owned & wanted.keys())
    if twice:
        return f"{twice[0]}: the operator sets it itself; leave it out of config.broker"
    if cluster.spec.security is not None:
        listener = security.protocol(cluster)
        variables["KAFSCALE_LISTENERS"] = f"{listener}://0.0.0.0:9092"
        variables["KAFSCALE_ADVERTISED_LISTENERS"] = f"{listener}://a:1"
    elif cluster.spec.brokers.external is not None:
        variables["KAFSCALE_ADVERTISED_LISTENERS"] = "PLAINTEXT://a:1,EXTERNAL://b:2"
    try:
        load(None, variables, dict(wanted))
    except ConfigError as problem:
        return str(problem)
    return None


def rendered(env: list[dict[str, object]]) -> dict[str, str]:
    """Give the variables as a broker sees them, with secrets as `x`."""
    found: dict[str, str] = {}
    for one in env:
        name = str(one["name"])
        if "value" in one:
            text = str(one["value"])
            for key, value in {**_KNOWN_LATER, **found}.items():
                text = text.replace(f"$({key})", value)
            found[name] = text
        else:
            found[name] = _KNOWN_LATER.get(name, "x")
    found.pop("KAFSCALE_CONFIG", None)  # a file of the pod
    return {name: value for name, value in found.items() if name.startswith("KAFSCALE_")}
