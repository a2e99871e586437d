"""`python -m finport` is the command `finport`."""

import sys

from finport.rooms import check_rooms


def main() -> None:
    try:
        check_rooms()
    except ImportError as error:
        sys.exit(f"finport: {error}")
    from gateway.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
