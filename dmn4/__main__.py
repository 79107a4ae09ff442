"""`python -m dmn4` is the command `dmn4`."""

from dmn4.cli import main

main()
