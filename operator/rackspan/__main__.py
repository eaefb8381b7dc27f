"""The `rackspan` command. `rack-id` starts without the other commands and all that they import."""

import sys

from rackspan import rack_id


def main() -> None:
    """Run the command with the process's arguments, and exit."""
    if sys.argv[1:2] == [rack_id.NAME]:
        sys.exit(rack_id.main(sys.argv[2:]))
    from rackspan.cli import app  # noqa: PLC0415 - takes ten times as long as all of rack-id

    app()


if __name__ == "__main__":
    main()
