"""`kafscale operator`: clusters on Kubernetes.

Here: arguments and variables. Next door: the operator (room `operator`), whose libraries are loaded
when one of its programs is asked for.
"""

import argparse
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kafscale import __version__
from kafscale.cli.terminal.errors import UsageError
from kafscale.cli.terminal.output import print_line

if TYPE_CHECKING:
    from kafscale.operator.parts.common import Defaults

_IMAGE = f"kafscale:{__version__}"
_ETCD_IMAGE = "quay.io/coreos/etcd:v3.6.8"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    run = actions.add_parser("run", help="run the operator until a signal stops it")
    run.add_argument("--kubeconfig", metavar="FILE", help="where the API server is, outside a pod")
    run.add_argument("--namespace", default="", help="of the Lease (default: that of the account)")
    run.add_argument("--watch-namespace", default="", help="look at one namespace alone")
    run.add_argument("--host", default="0.0.0.0", help="of the page with health and metrics")
    run.add_argument("--port", type=int, default=8080, help="of the same page")
    actions.add_parser("crds", help="print the definitions of the resources")
    manifests = actions.add_parser("manifests", help="print everything that installs the operator")
    manifests.add_argument("--namespace", default="kafscale", help="where the operator runs")
    manifests.add_argument("--image", default=_IMAGE)
    member = actions.add_parser("etcd-member", help="prepare a member of the managed etcd")
    member.add_argument("--name", required=True)
    member.add_argument("--service", required=True, help="the domain of the members")
    member.add_argument("--members", type=int, required=True)
    member.add_argument("--listen", default="0.0.0.0")
    member.add_argument("--data-dir", type=Path, required=True)
    member.add_argument("--write", type=Path, required=True, help="the file for etcd's settings")
    snapshot = actions.add_parser("snapshot", help="keep a snapshot of etcd in a bucket")
    snapshot.add_argument("--endpoints", required=True, metavar="URL,...")
    snapshot.add_argument("--bucket", required=True)
    snapshot.add_argument("--prefix", required=True)
    snapshot.add_argument("--retention", type=int, default=48)
    load = actions.add_parser("load-snapshot", help="put the keys of a snapshot into etcd")
    load.add_argument("--endpoints", required=True, metavar="URL,...")
    load.add_argument("--bucket", required=True)
    load.add_argument("--prefix", required=True, help="what the keys of the snapshots begin with")
    load.add_argument("--key", default="", help="of the snapshot (default: the newest)")
    load.add_argument("--etcd-prefix", default="", help="before every key in etcd")
    activator = actions.add_parser("activator", help="keep clients while no broker runs")
    activator.add_argument("--listen", default="0.0.0.0")
    activator.add_argument("--port", type=int, default=9092)
    activator.add_argument("--metrics-port", type=int, default=9093)
    activator.add_argument("--brokers", required=True, metavar="HOST:PORT")


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    match args.action:
        case "crds":
            from kafscale.operator.kinds.crds import definitions

            _print_all(definitions())
        case "manifests":
            from kafscale.operator.installation import manifests

            _print_all(manifests(args.namespace, args.image))
        case _:
            _configure_log()
            return _run_program(args)
    return 0


def _run_program(args: argparse.Namespace) -> int:
    match args.action:
        case "run":
            from kafscale.operator.main import OperatorSettings, serve

            settings = OperatorSettings(
                defaults=_defaults(os.environ),
                namespace=args.namespace,
                watch_namespace=args.watch_namespace,
                kubeconfig=args.kubeconfig,
                identity=os.environ.get("KAFSCALE_OPERATOR_IDENTITY", ""),
                host=args.host,
                port=args.port,
            )
            return asyncio.run(serve(settings, os.environ))
        case "activator":
            from kafscale.operator.activator import serve as serve_activator

            host, _, port = args.brokers.rpartition(":")
            if not host or not port.isdigit():
                raise UsageError(f"--brokers: expected HOST:PORT, found {args.brokers}")
            where = host, int(port)
            return asyncio.run(serve_activator(args.listen, args.port, args.metrics_port, where))
        case "snapshot":
            return _snapshot(args)
        case "load-snapshot":
            return _load_snapshot(args)
        case _:
            from kafscale.operator.etcd.member import prepare

            asyncio.run(
                prepare(
                    args.name, args.service, args.members, args.listen, args.data_dir, args.write
                )
            )
            return 0


def _snapshot(args: argparse.Namespace) -> int:
    from kafscale.operator.etcd.snapshot import make_snapshot
    from kafscale.system import SystemClock

    kept = asyncio.run(
        make_snapshot(
            args.endpoints.split(","),
            args.bucket,
            args.prefix,
            args.retention,
            os.environ,
            SystemClock(),
        )
    )
    print_line(f"{kept.key}: {kept.size} bytes, {kept.dropped} older ones deleted")
    return 0


def _load_snapshot(args: argparse.Namespace) -> int:
    from kafscale.operator.etcd.snapshot_load import load_snapshot
    from kafscale.system import SystemClock

    loaded = asyncio.run(
        load_snapshot(
            args.endpoints.split(","),
            args.bucket,
            args.prefix,
            args.key,
            args.etcd_prefix,
            os.environ,
            SystemClock(),
        )
    )
    print_line(f"{loaded.key}: {loaded.rows} rows written, {loaded.removed} others removed")
    return 0


def _defaults(env: Mapping[str, str]) -> "Defaults":
    from kafscale.operator.parts.common import Defaults

    image = env.get("KAFSCALE_OPERATOR_IMAGE") or _IMAGE
    return Defaults(
        broker_image=env.get("KAFSCALE_OPERATOR_BROKER_IMAGE") or image,
        etcd_image=env.get("KAFSCALE_OPERATOR_ETCD_IMAGE") or _ETCD_IMAGE,
        operator_image=image,
        etcd_endpoints=tuple(
            one.strip()
            for one in env.get("KAFSCALE_OPERATOR_ETCD_ENDPOINTS", "").split(",")
            if one.strip()
        ),
    )


def _configure_log() -> None:
    from kafscale.broker.operating import log_output

    log_output.configure("info", None)


def _print_all(manifests: list[dict[str, object]]) -> None:
    import yaml

    for manifest in manifests:
        print("---")
        print(yaml.safe_dump(manifest, sort_keys=False, width=100), end="")
