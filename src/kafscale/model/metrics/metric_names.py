"""Names of series and labels that other programs read off a broker's metrics page.

Here: names alone. Next door: every series of a broker (engine/metrics/series.py), reading the page
(admin/cost/metrics_page.py).
"""

from typing import Final

S3_REQUESTS: Final = "kafscale_s3_requests_total"
S3_BYTES: Final = "kafscale_s3_bytes_total"
PRODUCED_BYTES: Final = "kafscale_produced_bytes_total"
PRODUCED_RECORDS: Final = "kafscale_produced_records_total"
FETCHED_BYTES: Final = "kafscale_fetched_bytes_total"
STARTED: Final = "process_start_time_seconds"

# In the place of a topic's name; '@' is in no topic's name.
NO_TOPIC: Final = "@store"  # requests that are about no topic
SHARED: Final = "@shared"  # a log that many topics share
