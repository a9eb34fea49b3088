"""`kafscale cost`: what each topic costs a day and a month, from what brokers really did.

Here: arguments and columns. Next door: what is counted (admin/cost/report.py), the arithmetic
(admin/cost/spending.py).
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from kafscale.admin.brokers import members
from kafscale.admin.brokers.page_trust import trust_of_client
from kafscale.admin.cost import spending
from kafscale.admin.cost.report import CostReport, measure_cost
from kafscale.admin.cost.spending import TopicUse
from kafscale.admin.errors import AdminError
from kafscale.admin.units import human_bytes
from kafscale.cli.brokers.client_arguments import (
    add_client_arguments,
    admin_client,
    tls_settings,
)
from kafscale.cli.terminal.config_arguments import set_by
from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.cli.terminal.output import print_columns, print_json
from kafscale.model.metrics.metric_names import SHARED
from kafscale.settings.loading import load
from kafscale.settings.sections import PricesSection
from kafscale.system import SystemClock

_USUAL: Final = "http://127.0.0.1:9093/metrics"
_OPERATIONS: Final = ("put", "get", "head", "list", "delete")
_SHORT_S: Final = 600.0  # less than this says little about a day


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--metrics",
        metavar="URL,...",
        help="metrics pages of all brokers (default: those that the brokers name)",
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help="read the pages twice, this far apart, instead of counting from each broker's start",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="count stored bytes, too: a data folder or s3://bucket/namespace; lists every object",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a YAML file with prices")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a price; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of columns")
    add_client_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    prices = load(args.config, os.environ, set_by(args)).prices
    if args.metrics is not None and not args.metrics.strip(" ,"):
        raise UsageError("--metrics: expected at least one URL")
    if args.wait is not None and args.wait <= 0:
        raise UsageError(f"--wait: expected seconds above zero, found {args.wait}")
    pages = _pages(args)
    report = asyncio.run(
        measure_cost(
            pages,
            SystemClock(),
            wait_s=args.wait,
            store_url=args.store or "",
            trust=trust_of_client(tls_settings(args), pages),
        )
    )
    if args.json:
        print_json(_json(report, prices))
    else:
        _show(report, prices)
    return 0


def _pages(args: argparse.Namespace) -> list[str]:
    """The metrics pages that were named, or those of the brokers."""
    if args.metrics is not None:
        return [url.strip() for url in args.metrics.split(",") if url.strip()]
    try:
        return members.find_pages(admin_client(args))
    except AdminError as problem:
        raise CommandError(
            f"{problem}; give --bootstrap of a running broker, or --metrics with the pages of all "
            f"brokers, such as {_USUAL}"
        ) from problem


def _json(report: CostReport, prices: PricesSection) -> dict[str, object]:
    return {
        "currency": prices.currency,
        "window": {
            "kind": "between two looks" if report.is_between_readings else "since start",
            "brokers": len(report.windows_s),
            "shortest_s": min(report.windows_s),
            "longest_s": max(report.windows_s),
        },
        "topics": {topic: _figures(report.uses[topic], prices) for topic in sorted(report.uses)},
        "total": _figures(spending.sum_of(report.uses.values()), prices),
        "shared": {
            topic: {
                "stored_bytes": report.shared_bytes[topic],
                "share": share,
                "cost_per_month": share * _shared_month(report, prices),
            }
            for topic, share in spending.shares(report.shared_bytes).items()
        },
    }


def _shared_month(report: CostReport, prices: PricesSection) -> float:
    """What the logs that topics share cost a month."""
    return spending.daily_cost(report.uses.get(SHARED, TopicUse()), prices).month


def _figures(use: TopicUse, prices: PricesSection) -> dict[str, object]:
    cost = spending.daily_cost(use, prices)
    return {
        "requests_per_day": {name: use.requests.get(name, 0.0) for name in _OPERATIONS},
        "written_bytes_per_day": use.written_bytes,
        "read_bytes_per_day": use.read_bytes,
        "stored_bytes": use.stored_bytes,
        "cost_per_day": {
            "requests": cost.requests,
            "transfer": cost.transfer,
            "storage": cost.storage,
            "total": cost.day,
        },
        "cost_per_month": cost.month,
    }


def _show(report: CostReport, prices: PricesSection) -> None:
    uses = report.uses
    money = prices.currency
    headings = [
        "TOPIC",
        *(f"{name.upper()}/DAY" for name in _OPERATIONS),
        "WRITTEN/DAY",
        "READ/DAY",
        "STORED",
        f"{money}/DAY",
        f"{money}/MONTH",
    ]
    by_price = sorted(
        uses, key=lambda topic: (-spending.daily_cost(uses[topic], prices).day, topic)
    )
    rows = [_row(topic, uses[topic], prices) for topic in by_price]
    rows.append(_row("all", spending.sum_of(uses.values()), prices))
    print_columns(headings, rows)
    _show_shares(report, prices)
    print()
    print(f"requests: {_window(report)}, extrapolated to a day and to 30 days")
    if any(use.stored_bytes is not None for use in uses.values()):
        print("storage: what lies there now, for 30 days")
    else:
        print("storage: not counted (see --store)")
    if min(report.windows_s) < _SHORT_S:
        print("kafscale: so short a time says little about a day", file=sys.stderr)


def _show_shares(report: CostReport, prices: PricesSection) -> None:
    """Whose the logs are that topics share, and what each pays for them."""
    if not report.shared_bytes:
        return
    month = _shared_month(report, prices)
    print()
    print_columns(
        [f"OF {SHARED}", "STORED", "SHARE", f"{prices.currency}/MONTH"],
        [
            [topic, human_bytes(report.shared_bytes[topic]), f"{share:.1%}", f"{share * month:.2f}"]
            for topic, share in spending.shares(report.shared_bytes).items()
        ],
    )


def _row(topic: str, use: TopicUse, prices: PricesSection) -> list[object]:
    cost = spending.daily_cost(use, prices)
    return [
        topic,
        *(round(use.requests.get(name, 0.0)) for name in _OPERATIONS),
        human_bytes(round(use.written_bytes)),
        human_bytes(round(use.read_bytes)),
        None if use.stored_bytes is None else human_bytes(use.stored_bytes),
        f"{cost.day:.4f}",
        f"{cost.month:.2f}",
    ]


def _window(report: CostReport) -> str:
    spans_s, twice = report.windows_s, report.is_between_readings
    brokers = f"{len(spans_s)} broker{'s' if len(spans_s) > 1 else ''}"
    shortest, longest = _span(min(spans_s)), _span(max(spans_s))
    how_long = shortest if shortest == longest else f"{shortest} to {longest}"
    return f"of {how_long} {'between two looks at' if twice else 'since the start of'} {brokers}"


def _span(seconds: float) -> str:
    for unit, size in (("d", spending.DAY_S), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
