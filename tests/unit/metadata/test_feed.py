"""Watchers in one process: those who fall behind are given a listing."""

from contextlib import aclosing

import pytest

from kafscale.metadata import feed
from kafscale.metadata.feed import Feed
from kafscale.metadata.store import Change, Entry, Listing


def change(version: int) -> Change:
    return Change(version, [Entry("/a", b"%d" % version, version)], [])


async def test_a_watcher_that_is_too_far_behind_is_given_a_listing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed, "_MOST_WAITING", 3)
    news, version = Feed(), 0

    def publish() -> None:
        nonlocal version
        version += 1
        news.publish(change(version))

    async with aclosing(news.watch("/", lambda: Listing(version, []))) as watch:
        assert await anext(watch) == Listing(0, [])
        for _ in range(3):
            publish()
        assert [await anext(watch) for _ in range(3)] == [change(1), change(2), change(3)]
        for _ in range(10):
            publish()
        assert await anext(watch) == Listing(13, [])
        publish()
        assert await anext(watch) == change(14)


async def test_what_a_listing_holds_already_is_not_told_again() -> None:
    news = Feed()

    def read() -> Listing:
        news.publish(change(5))  # committed and published while it was read
        return Listing(5, [])

    async with aclosing(news.watch("/", read)) as watch:
        assert await anext(watch) == Listing(5, [])
        news.publish(change(6))
        assert await anext(watch) == change(6)


async def test_a_watcher_that_has_left_costs_nothing() -> None:
    news = Feed()
    watch = news.watch("/", lambda: Listing(0, []))
    await anext(watch)
    await watch.aclose()
    assert not news._watchers
