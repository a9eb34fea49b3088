"""A broker in a hurry: it rolls up, sweeps and looks around all the time; little is in memory."""

from tests.support.broker import KafscaleProcess

GRACE_S = 3


class HurriedBroker(KafscaleProcess):
    """Everything that usually takes minutes happens within seconds."""

    settings = (
        f"storage.gracePeriod={GRACE_S}s",
        "storage.housekeepingInterval=1s",
        "storage.rollupObjects=10",
        "cache.tailCacheSize=64Ki",
        "cache.segmentCacheSize=256Ki",
    )

    @property
    def store(self) -> str:
        return f"file://{self.data}"
