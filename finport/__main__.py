"""`python -m finport` is the command `finport`."""

import sys

from finport.packages import check_packages


def main() -> None:
    try:
        check_packages()
    except ImportError as error:
        sys.exit(f"finport: {error}")
    from gateway.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
