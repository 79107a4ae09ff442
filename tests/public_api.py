"""The public names with their signatures, one line a name or parameter.

`python tests/public_api.py` records them in public_api.txt; with --check it says which are not on record.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

RECORD = Path(__file__).with_suffix(".txt")
NOT_PROMISED = {"judge", "judge_maps", "judge_scores", "verdicts", "embed", "comparing_all"}      # for other rooms


def public_api() -> str:
    """Functions and classes, the classifier's methods, options of methods, commands; a line for each parameter."""
    return "\n".join([*functions(), *estimator(), *method_options(), *commands()]) + "\n"


def functions() -> Iterator[str]:
    """What is imported: `dmn4.__all__`, and keep_mutual."""
    import dmn4
    from dmn4.methods.neighbors import keep_mutual

    for name in sorted(dmn4.__all__):
        yield from lines(f"dmn4.{name}", getattr(dmn4, name))
    yield from lines("dmn4.methods.neighbors.keep_mutual", keep_mutual)
    yield from (f"dmn4.BACKBONES {name}" for name in dmn4.BACKBONES)


def estimator() -> Iterator[str]:
    """The classifier's own methods, what an explanation tells, and the calls of a method."""
    from dmn4 import FewShotClassifier
    from dmn4.evidence.explanation import Explanation
    from dmn4.methods.base import Method

    for kind in (FewShotClassifier, Explanation):
        for name, member in sorted(inspect.getmembers(kind)):
            own = any(name in vars(base) and base.__module__.startswith("dmn4.") for base in kind.__mro__)
            learnt = name.endswith("_")                           # what `fit` keeps
            if own and not name.startswith("_") and not learnt and not name.endswith("_request") \
                    and name not in NOT_PROMISED:
                yield from lines(f"{kind.__name__}.{name}", member)
    for name in ("forward", "learn", "answer"):
        yield from lines(f"Method.{name}", getattr(Method, name))


def method_options() -> Iterator[str]:
    """Every method with its options."""
    from dmn4 import METHODS

    for name, kind in METHODS.items():
        yield from lines(f"dmn4.METHODS {name}", kind)


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    import typer

    from dmn4.cli.main import app

    todo = [("dmn4", typer.main.get_command(app))]
    for words, command in todo:
        if hasattr(command, "commands"):
            todo += [(f"{words} {name}", below) for name, below in command.commands.items()]
        else:
            yield words
            yield from (f"{words} {spelling}" for one in command.params for spelling in one.opts if one.name != "help")


def lines(name: str, member: object) -> Iterator[str]:
    """A name, and its parameters by their place, "*" for those given by name alone, "=" for those with a default."""
    yield name
    if inspect.isfunction(member) or hasattr(member, "fit") or hasattr(member, "answer"):
        parameters = [one for one in inspect.signature(member).parameters.values() if one.name != "self"]
        for place, one in enumerate(parameters, 1):           # types may become wider, defaults better
            where = "*" if one.kind in (one.KEYWORD_ONLY, one.VAR_KEYWORD) else place
            yield f"{name} {where} {one.name}{'=' * (one.default is not one.empty)}"


def compared() -> tuple[list[str], list[str]]:
    """Lines on record that are gone, and lines that are not on record yet."""
    now, before = public_api().splitlines(), RECORD.read_text().splitlines()
    return sorted({*before} - {*now}), sorted({*now} - {*before})


if __name__ == "__main__":
    sys.path.insert(0, str(RECORD.parents[1]))
    if "--check" in sys.argv:
        gone, new = compared()
        sys.exit("\n".join(["not as recorded; gone:", *gone, "new:", *new]) if gone or new else 0)
    RECORD.write_text(public_api())
