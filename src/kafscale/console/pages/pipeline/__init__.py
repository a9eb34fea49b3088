"""The data pipeline: its tables, runs of its jobs, SQL over topics."""

from typing import Final

from kafscale.console.call import PageHandler
from kafscale.console.pages.pipeline import jobs, sql, tables

HANDLERS: Final[dict[str, PageHandler]] = {
    **jobs.HANDLERS,
    **sql.HANDLERS,
    **tables.HANDLERS,
}
