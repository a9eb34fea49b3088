"""Statistics as one page: self-contained, for light and dark, with pictures.

Here: the page and its pictures. matplotlib draws with stand-in colours, which become the page's
own afterwards, so that a picture follows the reader's preference like the text around it.
Next door: the figures (statistics.py), the job (jobs/stats.py).
"""

import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from kafscale.model.topics import iso_time
from kafscale.spark.report import statistics
from kafscale.spark.report.statistics import Statistics, TopicStats
from kafscale.spark.report.style import STYLE

SERIES: Final = 6
SHOWN_DAYS: Final = 60
NOTABLE_SHARE: Final = 0.005  # keys rarer than this are not worth a bar
# What matplotlib is told, and what the page puts in its place.
_INK: Final = "#010203"
_FAINT: Final = "#040506"
_COLOURS: Final = [f"#0a0b{n:02x}" for n in range(1, SERIES + 1)]
_STAND_INS: Final = {
    _INK: "var(--ink)",
    _FAINT: "var(--line)",
    **{colour: f"var(--c{n})" for n, colour in enumerate(_COLOURS, 1)},
}


def page(gathered: Statistics) -> str:
    """The whole document."""
    parts = [
        _head(gathered),
        _growth(gathered.topics),
        _partitions(gathered.topics),
        _objects(gathered.topics),
    ]
    parts += [_keys(gathered), _lags(gathered), _money(gathered), _table(gathered.topics)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Topics in {html.escape(gathered.store)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _head(gathered: Statistics) -> str:
    topics = gathered.topics
    days = sum(topic.growth_per_day() or 0 for topic in topics)
    cost = sum(sum(topic.monthly_cost(gathered.prices).values()) for topic in topics)
    cost += gathered.gets_per_day * statistics.DAYS_IN_MONTH / 1000 * gathered.prices.get
    facts = [
        (f"{len(topics)}", "topics"),
        (_count(_sum(topics, "records")), "records"),
        (_bytes(_sum(topics, "bytes")), "stored"),
        (_bytes(days), "a day, lately"),
        (_count(_sum(topics, "objects")), "objects"),
        (_count(sum(topic.debt for topic in topics)), "objects too many"),
        (_money_text(cost), "a month"),
    ]
    cells = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in facts)
    return (
        f"<h1>Topics in {html.escape(gathered.store)}</h1><p>As of {gathered.taken_at}.</p>"
        f'<div class="facts">{cells}</div>'
    )


def _growth(topics: Sequence[TopicStats]) -> str:
    events = {day for topic in topics for day in topic.days}
    if not events:
        return ""
    last = max(events)
    back = min((last - min(events)).days, SHOWN_DAYS - 1)
    days = [last - timedelta(days=ago) for ago in range(back, -1, -1)]
    shown = _largest(topics)
    axes = _axes(3.0)
    floor = [0.0] * len(days)
    for colour, (name, group) in zip(_COLOURS, shown, strict=False):
        total: Counter[Any] = sum((topic.days for topic in group), Counter())
        heights = [float(total[day]) for day in days]
        axes.bar(range(len(days)), heights, 0.82, bottom=floor, color=colour, label=name)
        floor = [low + more for low, more in zip(floor, heights, strict=True)]
    step = max(1, len(days) // 10)
    axes.set_xticks(
        range(0, len(days), step), [f"{days[at]:%-d %b}" for at in range(0, len(days), step)]
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _bytes(value)))
    if len(shown) > 1:
        _legend(axes)
    return _section(
        "Growth",
        "Stored bytes by the day their events stem from; the last day is not over yet.",
        axes,
    )


def _colours(topics: Sequence[TopicStats]) -> dict[str, str]:
    """A topic has the same colour in every picture."""
    names = (topic.name for topic in _by_size(topics))
    return dict(zip(names, _COLOURS, strict=False))


def _partitions(topics: Sequence[TopicStats]) -> str:
    rows = [
        (topic, partition) for topic in _by_size(topics)[:SERIES] for partition in topic.partitions
    ][:80]
    if len(rows) < 2:
        return ""
    axes = _axes(2.6)
    colours = _colours(topics)
    axes.bar(
        range(len(rows)),
        [partition.records for _, partition in rows],
        0.82,
        color=[colours[topic.name] for topic, _ in rows],
    )
    firsts = [at for at, (_, partition) in enumerate(rows) if partition.partition == 0]
    axes.set_xticks(firsts, [rows[at][0].name for at in firsts], ha="left")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
    worst = max((topic for topic in topics if topic.skew), key=lambda t: t.skew or 0, default=None)
    note = (
        f" The fullest of {html.escape(worst.name)} holds {worst.skew:.1f} times its share."
        if worst is not None and worst.skew and len(worst.partitions) > 1
        else ""
    )
    return _section("Partitions", f"Records by partition, topics side by side.{note}", axes)


def _objects(topics: Sequence[TopicStats]) -> str:
    sizes = [size for topic in topics for partition in topic.partitions for size in partition.sizes]
    if not sizes:
        return ""
    target = max(topic.target_bytes for topic in topics)
    edges = [1 << power for power in range(8, max(28, max(sizes).bit_length() + 1))]
    counts = [sum(low <= size < 2 * low for size in sizes) for low in edges]
    counts[0] += sum(size < edges[0] for size in sizes)
    axes = _axes(2.4)
    axes.bar(range(len(edges)), counts, 0.9, color=_COLOURS[0])
    axes.set_xticks(range(0, len(edges), 2), [human_bytes(edge) for edge in edges[::2]])
    at = target.bit_length() - 9
    axes.axvline(at, color=_COLOURS[1], linewidth=1.6)
    axes.annotate(
        f"target {human_bytes(target)}", (at, max(counts)), xytext=(-6, 0), color=_COLOURS[1],
        textcoords="offset points", ha="right", va="top", fontsize=10,
    )  # fmt: skip
    debt = sum(topic.debt for topic in topics)
    return _section(
        "Objects by size",
        f"{_count(debt)} of {_count(len(sizes))} objects would not be there at the target size: "
        "each costs a request to read, and compaction joins them.",
        axes,
    )


def _keys(gathered: Statistics) -> str:
    rows = []
    keyed = 0
    for topic in _by_size(gathered.topics)[:SERIES]:
        sample = topic.sample
        if sample.records > sample.without_key:
            keyed += 1
            top = sample.top(3)
            rows += [(topic.name, key, share) for key, share in top if share >= NOTABLE_SHARE]
    if not rows:
        text = f"No key has as much as {NOTABLE_SHARE:.1%} of the records that were looked at."
        return f"<h2>Frequent keys</h2><p>{text}</p>" if keyed else ""
    axes = _axes(0.34 * len(rows) + 0.5)
    of_topic = _colours(gathered.topics)
    colours = [of_topic[name] for name, _, _ in rows]
    places = range(len(rows), 0, -1)
    axes.barh(places, [share * 100 for _, _, share in rows], 0.72, color=colours)
    labels = [f"{name}: {_key_text(key)}" for name, key, _ in rows]
    axes.set_yticks(places, labels)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color=_FAINT, linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    return _section(
        "Frequent keys",
        f"Share of the records with a key, in a sample of {_bytes(gathered.sampled_bytes)}.",
        axes,
    )


def _lags(gathered: Statistics) -> str:
    by_group: Counter[tuple[str, str]] = Counter()
    for lag in gathered.lags:
        by_group[lag.group, lag.topic] += lag.records
    title = "Groups"
    if not by_group:
        unread = "No group has read these topics; " if gathered.lags_known else ""
        text = f"{unread}{gathered.lags_from}."
        return f"<h2>{title}</h2><p>{html.escape(text)}</p>"
    rows = by_group.most_common(15)
    axes = _axes(0.34 * len(rows) + 0.5)
    places = range(len(rows), 0, -1)
    axes.barh(places, [lag for _, lag in rows], 0.72, color=_COLOURS[3])
    axes.set_yticks(places, [f"{group}, {topic}" for (group, topic), _ in rows])
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color=_FAINT, linewidth=0.8)
    axes.set_xlim(left=0, right=max(1, *(lag for _, lag in rows)) * 1.05)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
    return _section(
        title, f"Records a group has not read yet; {html.escape(gathered.lags_from)}.", axes
    )


def _money(gathered: Statistics) -> str:
    prices = gathered.prices
    rows = []
    for topic in _by_size(gathered.topics):
        cost = topic.monthly_cost(prices)
        rows.append(
            [topic.name, _money_text(cost["storage"]), _money_text(cost["put"]),
             _money_text(cost["storage"] + cost["put"])]
        )  # fmt: skip
    readers = (
        f"{gathered.gets_per_day:,.0f} requests of readers a day add "
        f"{_money_text(gathered.gets_per_day * 30 / 1000 * prices.get)}."
        if gathered.gets_per_day
        else "Requests of readers are not counted."
    )
    note = (
        f"A month at today's size and pace: a gigabyte {prices.storage:g} USD, a thousand "
        f"writes {prices.put:g} USD, a thousand reads {prices.get:g} USD. {readers}"
    )
    names = ["topic", "storage", "writes", "together"]
    return f"<h2>Cost</h2><p>{note}</p>{_html_table(names, rows)}"


def _table(topics: Sequence[TopicStats]) -> str:
    rows = []
    for topic in topics:
        for partition in topic.partitions:
            span = [
                iso_time(when)[:16].replace("T", " ") if when is not None else "-"
                for when in (partition.first_ms, partition.last_ms)
            ]
            ratio = f"{partition.sample.ratio:.2f}" if partition.sample.ratio else "-"
            codecs = ", ".join(sorted(partition.sample.codecs)) or "-"
            rows.append(
                [topic.name, str(partition.partition), _count(partition.records),
                 _bytes(partition.bytes), _count(partition.objects), _count(partition.small),
                 *span, codecs, ratio]
            )  # fmt: skip
    names = ["topic", "partition", "records", "bytes", "objects", "small", "first", "last",
             "codecs", "ratio"]  # fmt: skip
    return f"<h2>All partitions</h2>{_html_table(names, rows)}"


def _section(title: str, text: str, axes: Any) -> str:
    return f"<h2>{title}</h2><p>{text}</p><figure>{_svg(axes.figure, title)}</figure>"


def _axes(height: float) -> Any:
    with mpl.rc_context({"svg.fonttype": "none", "font.size": 10.5, "font.family": "sans-serif"}):
        figure = Figure(figsize=(9.6, max(1.2, height)), layout="constrained")
        axes = figure.add_subplot()
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=0)
    axes.grid(visible=True, axis="y", color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return axes


def _legend(axes: Any) -> None:
    axes.legend(
        frameon=False, ncols=SERIES, loc="lower left", bbox_to_anchor=(0, 1), labelcolor=_INK,
        handlelength=0.9, handleheight=0.9, borderaxespad=0.2,
    )  # fmt: skip


def _svg(figure: Figure, title: str) -> str:
    sink = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None})
    text = sink.getvalue()
    text = text[text.index("<svg") :]
    for stand_in, colour in _STAND_INS.items():
        text = text.replace(stand_in, colour)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Ids must be unique on a page with several pictures.
    mark = re.sub(r"\W", "", title)
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{mark}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)


def _html_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    texts = {"topic", "first", "last", "codecs"}
    kinds = [' class="text"' if name in texts else "" for name in names]
    head = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, names, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{html.escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="table"><table><tr>{head}</tr>{body}</table></div>'


def _by_size(topics: Sequence[TopicStats]) -> list[TopicStats]:
    return sorted(topics, key=lambda topic: -topic.total("bytes"))


def _largest(topics: Sequence[TopicStats]) -> list[tuple[str, list[TopicStats]]]:
    """The largest topics, and the others in one."""
    ranked = _by_size(topics)
    if len(ranked) <= SERIES:
        return [(topic.name, [topic]) for topic in ranked]
    kept = [(topic.name, [topic]) for topic in ranked[: SERIES - 1]]
    return [*kept, ("others", ranked[SERIES - 1 :])]


def _sum(topics: Sequence[TopicStats], what: str) -> int:
    return sum(topic.total(what) for topic in topics)


def _count(number: float) -> str:
    for unit, size in (("bn", 1e9), ("m", 1e6), ("k", 1e4)):
        if number >= size:
            return f"{number / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{number:,.0f}"


def _bytes(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"


def human_bytes(size: float) -> str:
    """A power of two as people say it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.3g} {unit}"


def _money_text(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.01 or amount == 0 else "under 1 ct"


def _key_text(key: bytes) -> str:
    """Text is shown as text; a dollar sign would be mathematics to matplotlib."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = key.hex()
    text = "".join(sign if sign.isprintable() else "·" for sign in text).replace("$", r"\$")
    return text if len(text) <= 28 else text[:27] + "…"
