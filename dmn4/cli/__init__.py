"""The command line: thin commands over the functions of the package."""

from .main import main

__all__ = ["main"]
