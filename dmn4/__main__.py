"""`python -m dmn4` is the command `dmn4`. Nothing else is read before: Ctrl-C at any moment is one line."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from dmn4.cli import main as run
    except KeyboardInterrupt:
        print("dmn4: error: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
