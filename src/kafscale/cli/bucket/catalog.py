"""`kafscale catalog serve`: topics as Iceberg tables for engines that ask a REST catalog.

Here: the arguments, and serving until stopped. Next door: the catalog (spark/catalog/).
"""

import argparse
import ssl
from pathlib import Path
from typing import Final

from kafscale.cli.bucket.pipeline import not_installed
from kafscale.cli.terminal.errors import UsageError

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    serve = actions.add_parser("serve", help="serve the tables of a bucket until stopped")
    serve.add_argument(
        "--store",
        required=True,
        metavar="URL",
        help="the store: file:///path, s3://bucket, gs://bucket or az://container",
    )
    serve.add_argument("--host", default="127.0.0.1", metavar="HOST")
    serve.add_argument("--port", type=int, default=8181, metavar="PORT")
    serve.add_argument(
        "--token-file",
        metavar="FILE",
        help="clients must send one of the tokens in this file, one per line",
    )
    serve.add_argument("--certificate", metavar="FILE", help="serve TLS with this certificate")
    serve.add_argument("--key", metavar="FILE", help="the certificate's key")
    serve.add_argument(
        "--insecure",
        action="store_true",
        help="serve other machines without tokens",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    tokens = _tokens(args.token_file)
    if args.host not in _LOOPBACK and not tokens and not args.insecure:
        raise UsageError("--host: other machines could read all tables: give --token-file")
    try:
        from kafscale.broker.operating import log_output
        from kafscale.spark.bucket import Bucket
        from kafscale.spark.catalog.server import CatalogServer
        from kafscale.spark.catalog.topic_tables import IcebergTopics
        from kafscale.spark.jobs.stopping import stoppable
    except ImportError as missing:
        raise not_installed(missing) from missing

    log_output.configure("warn", "text")
    bucket = Bucket(args.store)
    tls = _tls(args.certificate, args.key)
    with stoppable() as stop:
        server = CatalogServer(IcebergTopics(bucket), args.host, args.port, tokens, tls)
        scheme = "https" if tls else "http"
        print(f"catalog of {args.store} on {scheme}://{args.host}:{server.port}", flush=True)
        try:
            while not stop.asked:
                stop.sleep(3600)
        finally:
            server.close()
    return 0


def _tokens(file: str | None) -> list[str]:
    if file is None:
        return []
    tokens = [line.strip() for line in Path(file).read_text("utf-8").splitlines() if line.strip()]
    if not tokens:
        raise UsageError(f"--token-file: {file} has no token")
    return tokens


def _tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key go together")
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
