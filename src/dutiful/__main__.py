"""`python -m dutiful` and the `dutiful` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or exit with the extra that it needs."""
    try:
        from dutiful.cli.main import cli
        from dutiful.cli.stream_encoding import narrow_streams
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit('The dutiful command needs click: pip install "dutiful[cli]"')
    narrow_streams()
    cli()


if __name__ == "__main__":
    main()
