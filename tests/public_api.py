"""The public names with their signatures, as text. `python tests/public_api.py` records them in public_api.txt."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

RECORD = Path(__file__).with_suffix(".txt")
NOT_PROMISED = {"judge", "judge_maps", "embed"}               # other rooms of the package call them; they may change


def public_api() -> str:
    """One line a name: modules' functions, methods of classes, and what the tables of names hold."""
    return "\n".join([*functions(), *estimator(), *method_options(), *commands()]) + "\n"


def functions() -> Iterator[str]:
    """What is imported: `dmn4.__all__`, and keep_mutual."""
    import dmn4
    from dmn4.methods.neighbors import keep_mutual

    for name in sorted(dmn4.__all__):
        found = getattr(dmn4, name)
        yield f"dmn4.{name}{call(found) if inspect.isfunction(found) else ''}"
    yield f"dmn4.methods.neighbors.keep_mutual{call(keep_mutual)}"
    yield from (f"dmn4.BACKBONES[{name!r}]" for name in dmn4.BACKBONES)


def estimator() -> Iterator[str]:
    """The classifier, its own methods, and those of a method."""
    from dmn4 import FewShotClassifier
    from dmn4.evidence.explain import Explanation
    from dmn4.methods.base import Method

    yield f"FewShotClassifier{call(FewShotClassifier)}"
    for kind in (FewShotClassifier, Explanation):
        for name, member in sorted(inspect.getmembers(kind)):
            own = any(name in vars(base) and base.__module__.startswith("dmn4.") for base in kind.__mro__)
            if own and not name.startswith("_") and not name.endswith("_request") and name not in NOT_PROMISED:
                yield f"{kind.__name__}.{name}{call(member) if callable(member) else ''}"
    yield from (f"Method.{name}{call(getattr(Method, name))}" for name in ("forward", "learn", "answer"))


def method_options() -> Iterator[str]:
    """Every method with its options."""
    from dmn4 import METHODS

    yield from (f"METHODS[{name!r}]{call(kind)}" for name, kind in METHODS.items())


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    import typer

    from dmn4.cli.main import app

    todo = [("dmn4", typer.main.get_command(app))]
    for words, command in todo:
        if hasattr(command, "commands"):
            todo += [(f"{words} {name}", below) for name, below in command.commands.items()]
        else:
            names = sorted("|".join(one.opts) for one in command.params if one.name != "help")
            yield f"{words}: {' '.join(names)}"


def call(function: object) -> str:
    """The parameters of a call with their defaults; types may become wider, so they are left out."""
    parameters = inspect.signature(function).parameters.values()
    return str(inspect.Signature([one.replace(annotation=one.empty) for one in parameters if one.name != "self"]))


if __name__ == "__main__":
    sys.path.insert(0, str(RECORD.parents[1]))
    RECORD.write_text(public_api())
