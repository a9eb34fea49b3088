"""Stands in for kafka-acls.sh: the options librdkafka's tests call it with.

python -m tests.compat.kafka_acls --bootstrap-server B --add|--remove --topic T ...
"""

import argparse
import sys

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

_WITHIN_S = 30.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="kafka-acls.sh")
    parser.add_argument("--bootstrap-server", required=True)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--add", action="store_true")
    action.add_argument("--remove", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--operation", required=True)
    principal = parser.add_mutually_exclusive_group(required=True)
    principal.add_argument("--allow-principal")
    principal.add_argument("--deny-principal")
    parser.add_argument("--allow-host", "--deny-host", dest="host", default="*")
    given = parser.parse_args(arguments)
    admin = AdminClient({"bootstrap.servers": given.bootstrap_server})
    allowed = given.allow_principal is not None
    parts = (
        ResourceType.TOPIC,
        given.topic,
        ResourcePatternType.LITERAL,
        given.allow_principal if allowed else given.deny_principal,
        given.host,
        AclOperation[given.operation.upper()],
        AclPermissionType.ALLOW if allowed else AclPermissionType.DENY,
    )
    changes = (
        admin.create_acls([AclBinding(*parts)])
        if given.add
        else admin.delete_acls([AclBindingFilter(*parts)])
    )
    for change in changes.values():
        change.result(_WITHIN_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
