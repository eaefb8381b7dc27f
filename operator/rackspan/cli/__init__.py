"""The `rackspan` command."""

from rackspan.cli.app import app

__all__ = ["app"]
