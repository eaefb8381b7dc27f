"""A scan as one self-contained HTML page."""

from rackspan.reports.document import ScanDocument


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
