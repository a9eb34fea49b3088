"""Made-up orders of a shop, the same for the same seed.

Here: the data of `kafscale demo` and of the walk-through. Never here: a clock or a network.
"""

import math
import random
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

SCHEMA: Final = (
    "order_id bigint, customer string, country string, product string, "
    "quantity int, price double, status string"
)

_DAY_MS: Final = 86_400_000
_COUNTRIES: Final = ("DE", "US", "FR", "GB", "NL", "JP", "BR", "IN", "SE", "PL")
_PRODUCTS: Final = {
    "espresso machine": 349.0,
    "grinder": 129.0,
    "beans 1 kg": 18.5,
    "filter papers": 4.9,
    "kettle": 59.0,
    "scale": 42.0,
    "cup": 9.5,
    "descaler": 12.0,
}
_STATUSES: Final = ("paid", "paid", "paid", "paid", "shipped", "shipped", "returned")
_CUSTOMERS: Final = 5_000


class Order(NamedTuple):
    """One record: key, value and when it happened."""

    key: bytes
    value: bytes
    timestamp_ms: int


def orders(count: int, until_ms: int, days: int = 7, seed: int = 1) -> Iterator[Order]:
    """`count` orders over the last days, few at night, most from a handful of customers."""
    dice = random.Random(seed)
    products = list(_PRODUCTS)
    weights = [1 / price**0.5 for price in _PRODUCTS.values()]
    for number, at_ms in enumerate(_times(count, until_ms, days, dice)):
        customer = int(_CUSTOMERS * dice.random() ** 3)  # the cube makes a few of them busy
        product = dice.choices(products, weights)[0]
        value = {
            "order_id": number,
            "customer": f"c-{customer:05d}",
            "country": _COUNTRIES[int(len(_COUNTRIES) * dice.random() ** 2)],
            "product": product,
            "quantity": 1 + int(4 * dice.random() ** 3),
            "price": _PRODUCTS[product],
            "status": dice.choice(_STATUSES),
        }
        yield Order(b"c-%05d" % customer, msgspec.json.encode(value), at_ms)


def _times(count: int, until_ms: int, days: int, dice: random.Random) -> list[int]:
    """Moments over the days: a wave with its crest in the evening, a little more every day."""
    found: list[int] = []
    while len(found) < count:
        share = dice.random()
        hour = share * days * 24 % 24
        busy = 0.55 - 0.45 * math.cos((hour - 7) / 24 * 2 * math.pi)
        if dice.random() < busy * (0.6 + 0.4 * share):
            found.append(until_ms - int((1 - share) * days * _DAY_MS))
    return sorted(found)
