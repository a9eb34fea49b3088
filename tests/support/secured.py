"""A broker with a listener of every kind, and the settings by which clients get in.

Next door: the clients (secured_clients.py), certificates and tokens (certificates.py).
"""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.support.broker import KafscaleProcess
from tests.support.certificates import Authority, TokenIssuer
from tests.support.ports import free_port

ADMIN, ADMIN_PASSWORD = "admin", "the-admins-own-password"
PLAIN_USER, PLAIN_PASSWORD = "paula", "plain=password"
TOPIC = "secured"  # that every user may use
CLOSED = "closed"  # a topic and a group of no user but super users
DENIED_USER, DENIED_PASSWORD = "dora", "doras-own-password"  # may use TOPIC, nothing else
SUPER_USERS = ("ANONYMOUS", ADMIN, PLAIN_USER, "alice", "olga", "tina", "eve")
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
LISTENERS = ("PLAINTEXT", "SSL", "MUTUAL", "SASL_PLAINTEXT", "SASL_SSL")


class SecuredProcess(KafscaleProcess):
    """Listens in every way that there is; only PLAINTEXT, for administration, asks no client."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str] | None = None,
        fellow: "SecuredProcess | None" = None,
    ) -> None:
        """`fellow`: another broker of the same fleet, whose secrets this one has."""
        super().__init__(folder, env)
        if fellow is not None:
            self.secrets, self.own, self.issuer = fellow.secrets, fellow.own, fellow.issuer
            self.authority, self.stranger = fellow.authority, fellow.stranger
        else:
            self.secrets = folder / "secrets"
            self.secrets.mkdir(parents=True, exist_ok=True)
            self.authority = Authority(self.secrets, "authority")
            self.stranger = Authority(self.secrets, "stranger")
            self.own = self.authority.issue("broker", file_name="broker")
            self.issuer = TokenIssuer(self.secrets)
        self.ports = {name: free_port() for name in LISTENERS} | {"PLAINTEXT": self.port}
        self.users_file = self.secrets / "users"
        self.config_file = folder / "broker.yaml"

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def prepare(self) -> None:
        self.users_file.write_text(f"# of PLAIN\n{PLAIN_USER}={PLAIN_PASSWORD}\n")
        (self.secrets / "admin").write_text(f"{ADMIN_PASSWORD}\n")
        (self.secrets / "token-secret").write_text("a-secret-of-the-whole-fleet")
        rows: dict[str, dict[str, object]] = {
            "PLAINTEXT": {},
            "SSL": {},
            "MUTUAL": {"protocol": "SSL", "clientAuth": "required"},
            "SASL_PLAINTEXT": {"mechanisms": MECHANISMS[:2]},
            "SASL_SSL": {"mechanisms": MECHANISMS},
        }
        listeners = [
            {"name": name, "port": self.ports[name], "advertisedHost": "localhost", **row}
            for name, row in rows.items()
        ]
        del listeners[0]["advertisedHost"]  # the harness asks 127.0.0.1
        settings = {
            "listeners": listeners,
            "tls": {
                "certFile": str(self.own.certificate),
                "keyFile": str(self.own.key),
                "caFile": str(self.authority.file),
                "principalMappingRules": "RULE:^CN=([^,]*),.*$/$1/L,DEFAULT",
                "metrics": True,
            },
            "sasl": {
                "usersFile": str(self.users_file),
                "adminUser": ADMIN,
                "adminPasswordFile": str(self.secrets / "admin"),
                "tokenSecretFile": str(self.secrets / "token-secret"),
                "oauth": {
                    "jwksFile": str(self.issuer.keys_file),
                    "issuer": self.issuer.url,
                    "audiences": ["kafscale"],
                },
            },
            "authorization": {
                "enabled": True,
                "superUsers": [f"User:{name}" for name in SUPER_USERS],
            },
        }
        self.config_file.write_text(json.dumps(settings))

    def environment(self) -> dict[str, str]:
        env = super().environment()
        del env["KAFSCALE_BROKER_PORT"]
        return {**env, "KAFSCALE_CONFIG": str(self.config_file)}


Settings = dict[str, str]  # in librdkafka's words


def with_tls(broker: SecuredProcess, authority: Authority | None = None) -> Settings:
    trusted = authority or broker.authority
    return {"security.protocol": "SSL", "ssl.ca.location": str(trusted.file)}


def with_certificate(broker: SecuredProcess, authority: Authority, name: str) -> Settings:
    issued = authority.issue(name)
    return with_tls(broker) | {
        "ssl.certificate.location": str(issued.certificate),
        "ssl.key.location": str(issued.key),
    }


def with_password(
    broker: SecuredProcess, mechanism: str, user: str, password: str, protocol: str = "SASL_SSL"
) -> Settings:
    return with_tls(broker) | {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def with_token(broker: SecuredProcess, token: str) -> Settings:
    return with_tls(broker) | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "token": token,  # of these tests
    }


def with_delegation(broker: SecuredProcess, token_id: str, hmac: str) -> Settings:
    """A delegation token; only Java's client can say that it is one."""
    login = with_password(broker, "SCRAM-SHA-256", token_id, hmac)
    return login | {"delegation": "yes"}  # of these tests


JAVA_LOGINS = "org.apache.kafka.common.security"


def java_properties(bootstrap: str, settings: Settings) -> dict[str, str]:
    """The same settings in Java's words."""
    given = {
        "bootstrap.servers": bootstrap,
        "security.protocol": settings["security.protocol"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": settings["ssl.ca.location"],
        "max.block.ms": "15000",
        "default.api.timeout.ms": "30000",
    }
    if "ssl.key.location" in settings:
        both = settings["ssl.key.location"].replace("-key.pem", "-both.pem")
        given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": both}
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism:
        given["sasl.mechanism"] = mechanism
    if "sasl.username" in settings:
        kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        given["sasl.jaas.config"] = (
            f'{JAVA_LOGINS}.{kind} required username="{settings["sasl.username"]}" '
            f'password="{settings["sasl.password"]}"'
            f"{' tokenauth=true' if 'delegation' in settings else ''};"
        )
    return given
