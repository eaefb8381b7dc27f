"""`python -m rackspan`: the same as the `rackspan` command."""

from rackspan.cli import app

app()
