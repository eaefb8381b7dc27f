"""A scan, and a fleet's last scans, as self-contained HTML pages."""

from typing import TYPE_CHECKING

from rackspan.reports.document import ScanDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.reports.page.fleet import FleetRow


class NoPlottingLibraryError(Exception):
    """What draws the page is not installed."""

    def __init__(self) -> None:
        super().__init__("the page of a scan is drawn with Bokeh, which is not installed")

    remedy = "pip install 'rackspan[page]'"


def render(document: ScanDocument) -> str:
    """Write the page of a scan: HTML that asks nothing of any network. Raises NoPlottingLibraryError."""
    try:
        from rackspan.reports.page import rendering  # noqa: PLC0415 - only those who make pages have Bokeh
    except ImportError as error:
        raise NoPlottingLibraryError from error
    return rendering.render(document)


def render_fleet(rows: "Sequence[FleetRow]") -> str:
    """Write the page of a fleet, whose links lead to the files `page` of the rows. Raises NoPlottingLibraryError."""
    try:
        from rackspan.reports.page import fleet_page  # noqa: PLC0415
    except ImportError as error:
        raise NoPlottingLibraryError from error
    return fleet_page.render_fleet(rows)
