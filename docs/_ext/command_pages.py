"""One page of Markdown for each command of the command line, from what `--help` is made of."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from dmn4.cli.main import app


def command_pages() -> dict[str, str]:
    """The pages by name: "dmn4-data-inspect" -> Markdown."""
    return {"-".join(words): page(words, command)
            for words, command in commands(typer.main.get_command(app), ("dmn4",))}


def commands(group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below a group, with the words that call it."""
    for name, command in group.commands.items():
        below = (*words, name)
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield below, command
        if hasattr(command, "commands"):
            yield from commands(command, below)


def page(words: tuple[str, ...], command: Any) -> str:
    """What the command does, an example, its arguments, and its options in their groups."""
    about, example = split_example(f"{command.help}\n\n{command.epilog or ''}")
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params
               if parameter.param_type_name == "option" and parameter.name != "help"]
    usage = " ".join([*words, *map(argument_name, arguments), "[OPTIONS]"])
    parts = [f"# {' '.join(words)}", about, f"```text\n{usage}\n```"]
    if example:
        parts.append(f"Example:\n\n```bash\n{example}\n```")
    if arguments:
        rows = [(f"`{argument_name(argument)}`", described(argument)) for argument in arguments]
        parts.append(table("Argument", rows))
    for panel in dict.fromkeys(option.rich_help_panel for option in options):
        rows = [(option_names(option), described(option)) for option in options if option.rich_help_panel == panel]
        parts += [f"## {panel or 'Options'}", table("Option", rows)]
    return "\n\n".join(parts) + "\n"


def split_example(text: str) -> tuple[str, str]:
    """The help text without its example, and the example's command."""
    about, _, example = text.partition("Example: ")
    paragraphs = [" ".join(part.split()) for part in about.strip().split("\n\n")]
    return escaped("\n\n".join(paragraphs)), " ".join(example.split())


def table(kind: str, rows: list[tuple[str, str]]) -> str:
    """Two columns: names and what they are."""
    return "\n".join([f"| {kind} | What it is |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])


def argument_name(argument: Any) -> str:
    """An argument as --help writes it."""
    name = argument.metavar or argument.name.upper()
    return f"{name}{'...' * (argument.nargs == -1)}"


def option_names(option: Any) -> str:
    """All spellings of an option, unbroken."""
    return " ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def described(option: Any) -> str:
    """The help of an option or argument as a sentence, and its default if it has one that says something."""
    text = escaped(option.help).removesuffix(".")
    text = f"{text[0].upper()}{text[1:]}"
    default = option.default
    if default in (None, False, "", ()) or callable(default):
        return text + "."
    return f"{text}. Default: `{'yes' if default is True else default}`."


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>|$\[\]])", r"\\\1", part) for part in parts)
