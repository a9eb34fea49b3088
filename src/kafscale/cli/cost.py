"""`kafscale cost`: what each topic costs a day and a month, from what brokers really did.

Here: looking at brokers and at the bucket, and printing. Next door: the arithmetic (spending.py).
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from kafscale.cli import exposition, spending
from kafscale.cli.errors import UsageError
from kafscale.cli.output import human_bytes, print_columns, print_json
from kafscale.cli.settings import set_by
from kafscale.cli.spending import Look, Use
from kafscale.engine.metrics.log_gauges import SHARED
from kafscale.engine.metrics.series import NO_TOPIC, S3_BYTES, S3_REQUESTS, STARTED
from kafscale.log.formats import keys
from kafscale.model.clock import Clock
from kafscale.settings.config import load
from kafscale.settings.sections import PricesSection
from kafscale.system import SystemClock

_USUAL: Final = "http://127.0.0.1:9093/metrics"
_NAMES: Final = frozenset((S3_REQUESTS, S3_BYTES, STARTED))
_OPERATIONS: Final = ("put", "get", "head", "list", "delete")
_SHORT_S: Final = 600.0  # less than this says little about a day


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--metrics",
        default=_USUAL,
        metavar="URL,...",
        help=f"metrics pages of all brokers (default {_USUAL})",
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help="look twice, so far apart, instead of going by everything since the start",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="count the stored bytes, too: a data folder or s3://bucket/namespace. Lists all of it",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a YAML file with prices")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a price")
    parser.add_argument("--json", action="store_true", help="JSON instead of columns")


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    prices = load(args.config, os.environ, set_by(args)).prices
    urls = [url.strip() for url in args.metrics.split(",") if url.strip()]
    if not urls:
        raise UsageError("--metrics: expected at least one URL")
    if args.wait is not None and args.wait <= 0:
        raise UsageError(f"--wait: expected seconds above zero, found {args.wait}")
    asyncio.run(_cost(args, urls, prices))
    return 0


async def _cost(args: argparse.Namespace, urls: list[str], prices: PricesSection) -> None:
    clock = SystemClock()
    looks = await _look_at_all(urls, clock)
    before: list[Look | None] = [None] * len(urls)
    if args.wait is not None:
        await asyncio.sleep(args.wait)
        before, looks = list(looks), await _look_at_all(urls, clock)
    uses: dict[str, Use] = {}
    for look, earlier in zip(looks, before, strict=True):
        spending.add_rates(uses, look, earlier)
    if args.store:
        for topic, size in (await _stored(args.store)).items():
            uses.setdefault(topic, Use()).stored_bytes = size
    spans_s = [spending.window_s(*pair) for pair in zip(looks, before, strict=True)]
    if args.json:
        print_json(_report(uses, prices, spans_s, args.wait is not None))
    else:
        _show(uses, prices, spans_s, args.wait is not None)


async def _look_at_all(urls: list[str], clock: Clock) -> list[Look]:
    async def look(url: str) -> Look:
        text = await asyncio.to_thread(exposition.fetch, url)
        return Look.of(exposition.samples(text, _NAMES), clock.now_ms() / 1000)

    return await asyncio.gather(*map(look, urls))


async def _stored(url: str) -> dict[str, int]:
    """Bytes per topic, everything that lies there: also what waits to be deleted."""
    from kafscale.settings.locations import locate, open_location

    where = locate(url)
    store = open_location(where)
    sizes: dict[str, int] = {}
    try:
        for folder in await store.folders(where.namespace):
            path = f"{where.namespace}/{folder}"
            rows = await store.find(path)
            is_topic = not folder.startswith(("@", "."))
            topic = (keys.topic_of(where.namespace, path) if is_topic else None) or NO_TOPIC
            if path == keys.shared_folder(where.namespace):
                topic = SHARED
            sizes[topic] = sizes.get(topic, 0) + sum(row.size for row in rows)
    finally:
        await store.aclose()
    return sizes


def _report(
    uses: dict[str, Use], prices: PricesSection, spans_s: list[float], twice: bool
) -> dict[str, object]:
    return {
        "currency": prices.currency,
        "window": {
            "kind": "between two looks" if twice else "since start",
            "brokers": len(spans_s),
            "shortest_s": min(spans_s),
            "longest_s": max(spans_s),
        },
        "topics": {topic: _figures(uses[topic], prices) for topic in sorted(uses)},
        "total": _figures(spending.together(uses.values()), prices),
    }


def _figures(use: Use, prices: PricesSection) -> dict[str, object]:
    cost = spending.price(use, prices)
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


def _show(uses: dict[str, Use], prices: PricesSection, spans_s: list[float], twice: bool) -> None:
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
    by_price = sorted(uses, key=lambda topic: (-spending.price(uses[topic], prices).day, topic))
    rows = [_row(topic, uses[topic], prices) for topic in by_price]
    rows.append(_row("all", spending.together(uses.values()), prices))
    print_columns(headings, rows)
    print()
    print(f"requests: {_window(spans_s, twice)}, extrapolated to a day and to 30 days")
    if any(use.stored_bytes is not None for use in uses.values()):
        print("storage: what lies there now, for 30 days")
    else:
        print("storage: not counted (see --store)")
    if min(spans_s) < _SHORT_S:
        print("kafscale: so short a time says little about a day", file=sys.stderr)


def _row(topic: str, use: Use, prices: PricesSection) -> list[object]:
    cost = spending.price(use, prices)
    return [
        topic,
        *(round(use.requests.get(name, 0.0)) for name in _OPERATIONS),
        human_bytes(round(use.written_bytes)),
        human_bytes(round(use.read_bytes)),
        None if use.stored_bytes is None else human_bytes(use.stored_bytes),
        f"{cost.day:.4f}",
        f"{cost.month:.2f}",
    ]


def _window(spans_s: list[float], twice: bool) -> str:
    brokers = f"{len(spans_s)} broker{'s' if len(spans_s) > 1 else ''}"
    shortest, longest = _span(min(spans_s)), _span(max(spans_s))
    how_long = shortest if shortest == longest else f"{shortest} to {longest}"
    return f"of {how_long} {'between two looks at' if twice else 'since the start of'} {brokers}"


def _span(seconds: float) -> str:
    for unit, size in (("d", spending.DAY_S), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
