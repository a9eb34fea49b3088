"""Stands in for kafka-topics.sh: the options librdkafka's tests call it with.

python -m tests.compat.kafka_topics --bootstrap-server B --create|--alter|--delete --topic T ...
"""

import argparse
import sys

from kafscale.cli.main import main as kafscale


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="kafka-topics.sh")
    parser.add_argument("--bootstrap-server", required=True)
    action = parser.add_mutually_exclusive_group(required=True)
    for name in ("create", "alter", "delete"):
        action.add_argument(f"--{name}", action="store_const", const=name, dest="action")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions")
    parser.add_argument("--replication-factor")
    parser.add_argument("--config", action="append", default=[])
    given = parser.parse_args(arguments)
    command = ["topics", given.action, "--bootstrap", given.bootstrap_server]
    command += ["--partitions", given.partitions] if given.partitions else []
    command += [word for setting in given.config for word in ("--topic-config", setting)]
    return kafscale([*command, given.topic])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
