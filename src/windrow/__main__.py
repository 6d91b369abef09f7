"""`windrow` and `python -m windrow`: the command line, or which extra brings it."""

import sys

from windrow.errors import ExtraMissing
from windrow.extras import extra_of, needed


def main() -> None:
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        with needed(extra_of(command)):
            from windrow import cli  # noqa: PLC0415 - click is not there where only the client is
    except ExtraMissing as error:
        print("windrow:", error, *error.__notes__, sep="\n  ", file=sys.stderr)  # noqa: T201 - without click
        sys.exit(2)
    cli.main()


if __name__ == "__main__":
    main()
