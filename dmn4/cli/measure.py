"""dmn4 evaluate | compare | reproduce."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dmn4.memory import keep_freed_memory

from . import bulk
from .learn import Data, Out, Resume

Split = Annotated[str, typer.Option(help="classes that the episodes come from")]
Ways = Annotated[int, typer.Option(help="classes in an episode")]
Shots = Annotated[int, typer.Option(help="support images of each class")]
Queries = Annotated[int, typer.Option(help="query images of each class")]
Episodes = Annotated[int, typer.Option(help="episodes in a repeat (the paper: 10000)")]
Repeats = Annotated[int, typer.Option(help="repeats, each with its own seed (the paper: 10)")]
Seed = Annotated[int, typer.Option(help="seed of the episodes")]
Unlabelled = Annotated[int, typer.Option(help="unlabelled images of each class (semi-supervised methods)")]
Distractors = Annotated[int, typer.Option(help="further classes that only give unlabelled images")]
Labelled = Annotated[float, typer.Option(help="labelled share of each class; the rest gives the unlabelled images")]
Kind = Annotated[str, typer.Option("--backbone", help="name:option=value,... (default: conv4, or what a run was "
                                                     "trained with, whose options these come on top of)")]
Formula = Annotated[str, typer.Option(help="half-width of the interval: t or normal")]
BaseSplit = Annotated[str, typer.Option(help="base classes, for methods that train at test time (empty: none)")]
Mirror = Annotated[bool, typer.Option("--mirror", help="see every picture with its mirror image: both are shots, and "
                                                       "the scores of both queries are added")]
Memory = Annotated[float, typer.Option(help="gigabytes of maps kept in memory; more lie in a file")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the root command."""
    app.command("evaluate")(evaluate)
    app.command("compare")(compare)
    app.command("reproduce")(reproduce)


def evaluate(data: Data, weights: Annotated[str, typer.Option(help="run folder, weights file, or shipped name")] = "",
             backbone: Kind = "",
             method: Annotated[list[str] | None, typer.Option(
                 help="name:option=value,...; may be repeated (default: what the run was trained with)")] = None,
             out: Out = Path("runs/evaluate"), split: Split = "test", ways: Ways = 5, shots: Shots = 1,
             queries: Queries = 15, episodes: Episodes = 10_000, repeats: Repeats = 1, seed: Seed = 0,
             unlabelled: Unlabelled = 0, distractors: Distractors = 0, labelled: Labelled = 1.0, formula: Formula = "t",
             base_split: BaseSplit = "", mirror: Mirror = False, memory: Memory = 4.0, resume: Resume = False,
             engine: bulk.PlayEngine = "local", address: bulk.Address = None, workers: bulk.PlayWorkers = None) -> None:
    """Measure the accuracy of methods on one backbone, over episodes of a split.

    Example: dmn4 evaluate data/cub --weights runs/cub --method dmn4 --method dn4 --shots 5
    """
    from dmn4.bulk.play import player
    from dmn4.data.layouts import open_split
    from dmn4.evaluation.contenders import load_trained
    from dmn4.evaluation.evaluate import Protocol
    from dmn4.evaluation.evaluate import evaluate as run

    keep_freed_memory()
    trained = load_trained(weights, backbone)
    contenders = {name or "as trained": trained.with_method(name) for name in method or [""]}
    protocol = Protocol(ways, shots, queries, episodes, repeats, seed, unlabelled, distractors, labelled)
    results = run(open_split(data, split), contenders, protocol, out, resume=resume,
                  base=open_split(data, base_split) if base_split else None, in_memory=1e9 * memory,
                  mirror=mirror, play=player(engine, address, workers))
    print_results(results, formula, out)


def print_results(results: Any, formula: str, out: Path) -> None:
    """Show the accuracies as a table, or how a stopped evaluation goes on."""
    from rich.console import Console
    from rich.table import Table

    if not results.is_complete:
        typer.echo(f"stopped and saved; go on with the same command and --resume ({out})")
        return
    protocol = results.protocol
    table = Table("method", "accuracy %", caption=f"{protocol.ways}-way {protocol.shots}-shot, {protocol.repeats} x "
                  f"{protocol.episodes} episodes, 95 % interval ({formula}); {out / 'card.json'}")
    for name in results.values:
        table.add_row(name, str(results.accuracy(name, formula)))
    Console().print(table)
    typer.echo(f"data: {results.data}")


def compare(data: Data, contenders: Annotated[list[str], typer.Argument(
            help="[RUN@]METHOD[:option=value,...], two or more; the first is what the others are compared with; "
                 "`all` stands for every method not named")],
            weights: Annotated[str, typer.Option(help="run folder, weights file or name for those without RUN@")] = "",
            backbone: Kind = "",
            out: Out = Path("runs/compare"), split: Split = "test", ways: Ways = 5, shots: Shots = 1,
            queries: Queries = 15, episodes: Episodes = 1000, repeats: Repeats = 1, seed: Seed = 0,
            formula: Formula = "t", base_split: BaseSplit = "", mirror: Mirror = False, memory: Memory = 4.0,
            resume: Resume = False, engine: bulk.PlayEngine = "local", address: bulk.Address = None,
            workers: bulk.PlayWorkers = None) -> None:
    """Compare runs, methods or votes on the same episodes: intervals, paired differences, a picture.

    Example: dmn4 compare data/cub dn4 mn4 dmn4 dmn4:vote=rank --weights runs/cub
    """
    from dmn4.bulk.play import player
    from dmn4.data.layouts import open_split
    from dmn4.errors import InputError
    from dmn4.evaluation.compare import compare as rows_of
    from dmn4.evaluation.compare import parse_contenders, save
    from dmn4.evaluation.evaluate import Protocol
    from dmn4.evaluation.evaluate import evaluate as run

    keep_freed_memory()
    entered = parse_contenders(contenders, weights, backbone)
    if len(entered) < 2:
        raise InputError(f"{contenders[0]!r} alone cannot be compared; name at least two, such as dn4 dmn4")
    results = run(open_split(data, split), entered, Protocol(ways, shots, queries, episodes, repeats, seed), out,
                  resume=resume, base=open_split(data, base_split) if base_split else None, in_memory=1e9 * memory,
                  mirror=mirror, play=player(engine, address, workers))
    if not results.is_complete:
        print_results(results, formula, out)
        return
    rows = rows_of(results, formula, [name for name, contender in entered.items() if contender.facts.get("untrained")])
    save(rows, out)
    print_comparison(rows, out)
    typer.echo(f"data: {results.data}")


def print_comparison(rows: Any, out: Path) -> None:
    """Show the rows of a comparison as a table."""
    from rich.console import Console
    from rich.table import Table

    from dmn4.evaluation.compare import cells, footnote

    table = Table("method", "accuracy %", "difference", "p", "tighter",
                  caption="; ".join(filter(None, [
                      f"differences are paired, to the first row; tighter: than of two separate evaluations; {out}",
                      footnote(rows)])))
    for row in rows:
        table.add_row(row.label, str(row.accuracy), *cells(row.difference))
    Console().print(table)


def reproduce(name: Annotated[str, typer.Argument(help="table or figure; see --list")] = "",
              budget: Annotated[str, typer.Option(help="tiny (minutes), cpu (hours on two cores) or paper")] = "tiny",
              data: Annotated[list[str] | None, typer.Option(help="NAME=FOLDER; may be repeated")] = None,
              weights: Annotated[list[str] | None, typer.Option(
                  help="DATA=RUN or DATA/BACKBONE=RUN: a figure uses these weights; may be repeated")] = None,
              out: Out = Path("runs/reproduce"),
              picture: Annotated[bool, typer.Option("--picture", help="draw what classes adopt (semi only)")] = False,
              plan: Annotated[bool, typer.Option("--plan", help="only say what each cell would train")] = False,
              show_list: Annotated[bool, typer.Option("--list", help="list what can be reproduced")] = False,
              engine: bulk.CellEngine = "local", address: bulk.Address = None, workers: bulk.CellWorkers = None,
              gpus_per_worker: bulk.Gpus = 0) -> None:
    """Measure a table or figure of the paper; continues where it stopped.

    Example: dmn4 reproduce odm --budget cpu --data cub=data/cub
    """
    from dmn4.backbones import BACKBONES
    from dmn4.errors import InputError, choose
    from dmn4.reproduce import ENTRIES, Workshop
    from dmn4.reproduce.crew import on_engine
    from dmn4.reproduce.figures import FIGURES
    from dmn4.reproduce.plans import BUDGETS
    from dmn4.reproduce.sheets import DATA
    from dmn4.reproduce.workshop import plan_table

    if show_list or not name:
        typer.echo("\n".join(f"{key:16} {entry.about}" for key, entry in ENTRIES.items()))
        return
    folders = read_pairs("--data", data, DATA)
    given = read_pairs("--weights", weights, [f"{set_name}/{network}" for set_name in DATA for network in BACKBONES],
                       usual="/conv4")
    if given and name not in FIGURES:
        raise InputError(f"--weights goes with {', '.join(FIGURES)}; {name!r} trains its own")
    entry = ENTRIES[choose("table or figure", name, ENTRIES)]
    crew = on_engine(engine, address, workers, gpus_per_worker)
    if engine != "local" and (entry.sheet is None or plan or picture):
        raise InputError("--engine ray trains and measures the cells of a table: "
                         f"{', '.join(key for key, entry in ENTRIES.items() if entry.sheet)}")
    workshop = Workshop(out, choose("budget", budget, BUDGETS), folders, given=given, crew=crew)
    run = partial(plan_table, entry=entry) if plan else entry.picture if picture else entry.run
    if run is None:
        having = ", ".join(key for key, entry in ENTRIES.items() if entry.picture)
        raise InputError(f"--picture goes with {having}, not with {name!r}")
    keep_freed_memory()
    print_page(run(workshop, name))


def read_pairs(flag: str, texts: list[str] | None, names: Iterable[str], usual: str = "") -> dict[str, str]:
    """NAME=VALUE pairs of a flag, their names checked; one without a slash ends as `usual` says."""
    from dmn4.errors import InputError, choose

    pairs, known = {}, list(names)
    for text in texts or []:
        which, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"cannot read {flag} {text!r}; write NAME=VALUE with one of {', '.join(known)}")
        pairs[choose(flag, which if "/" in which else which + usual, known)] = value
    return pairs


def print_page(path: Path) -> None:
    """Show a Markdown page and say where it is."""
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(path.read_text()))
    typer.echo(f"{path} and {path.with_suffix('.html')}")
