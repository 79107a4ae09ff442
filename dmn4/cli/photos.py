"""dmn4 demo | fit | predict | explain."""

import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dmn4.errors import InputError

from . import bulk

if TYPE_CHECKING:
    from dmn4.data.folders import ImageSet

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `dmn4 fit` wrote.")]
Item = TypeVar("Item")
ODDITIES = r"PIL\."                                           # warns of odd metadata: the picture is read all the same


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the root command."""
    app.command()(demo)
    app.command(epilog="Example: dmn4 fit photos/ -o birds.dmn4")(fit)
    app.command(epilog="Example: dmn4 predict birds.dmn4 inbox/ --reject --csv birds.csv --sort-into sorted/")(predict)
    app.command(epilog="Example: dmn4 explain birds.dmn4 inbox/wren.jpg -o why.png")(explain)


def demo(out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the tables, the report and the model.")]
         = Path("dmn4-demo"), episodes: Annotated[int, typer.Option(help="Tasks in the table of methods.", min=2)] = 40,
         ) -> None:
    """Run the quick start: real photographs, a table of methods, "none of these", a report.

    Example: dmn4 demo -o dmn4-demo
    """
    from dmn4.sorting.demo import run_demo

    for line in run_demo(out, episodes, watched):
        typer.echo(line)


def fit(out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
        photos: Annotated[Path | None, typer.Argument(metavar="PHOTOS", help="PHOTOS/class/*.jpg, a few pictures "
                                                                             "each.")] = None,
        labels: Annotated[Path | None, typer.Option(help="A table `image,label`, or an export of Label Studio, "
                                                         "FiftyOne or CVAT: more pictures, or other labels for those "
                                                         "of PHOTOS; `none of these` and `not CLASS` rule "
                                                         "out.")] = None,
        unlabelled: Annotated[Path | None, typer.Option(help="Folder of pictures without labels.")] = None,
        method: Annotated[str, typer.Option(help="Method of comparing, as NAME:option=value,...")] = "dmn4-linear",
        backbone: Annotated[str, typer.Option(help="Network that describes the pictures.")] = "efficientnet_lite0",
        weights: Annotated[str | None, typer.Option(help="A .safetensors file, instead of the usual weights.")] = None,
        layer: Annotated[str | None, typer.Option(help="Layer of efficientnet_lite0 that describes patches.")] = None,
        image_size: Annotated[int | None, typer.Option(help="Scale pictures to this side, in pixels.", min=8)] = None,
        ) -> None:
    """Learn classes from a folder of class folders, without training, in a few seconds.

    Pictures in a folder `none of these`, or `not wren` beside `wren`, are learnt as what the classes are not.
    """
    from dmn4.classify.classifier import FewShotClassifier
    from dmn4.classify.verdict import USUAL_SHARE
    from dmn4.recipes import parse_options
    from dmn4.sorting.corrections import split
    from dmn4.sorting.files import gather, readable, readable_files

    if out.is_dir():
        raise InputError(f"{str(out)!r} is a folder; give the name of a file, such as {str(out / 'birds.dmn4')!r}")
    with plain_warnings():
        images, ruled_out = split(readable(labelled_pictures(photos, labels)))
        more = None if unlabelled is None else readable_files(gather([unlabelled]))
        name, _, options = method.partition(":")
        classifier = FewShotClassifier(name, backbone, weights=weights, layer=layer, image_size=image_size,
                                       method_options=parse_options(options))
        start = time.monotonic()
        names = [images.classes[label] for label in images.labels]
        classifier.fit(watched(list(images.images), "looking at pictures"), names,
                       None if more is None else watched(more, "unlabelled pictures"))
        if ruled_out:
            classifier.rule_out(*zip(*ruled_out, strict=True))
        classifier.save(out)
    apart, size = f", {len(ruled_out)} ruled out" if ruled_out else "", out.stat().st_size / 1e6
    typer.echo(f"{out}: {len(images.classes)} classes, {len(images)} pictures{apart}, {size:.1f} MB, "
               f"{time.monotonic() - start:.1f} s; \"none of these\" {classifier.calibration_.promise(USUAL_SHARE)}")
    typer.echo(f"next: dmn4 predict {out} MORE_PICTURES/ --reject")


def labelled_pictures(photos: Path | None, labels: Path | None) -> "ImageSet":
    """The pictures of a folder of class folders, of a table, or of both."""
    from dmn4.data.folders import read_folder
    from dmn4.sorting.corrections import with_labels

    if labels is not None:
        return with_labels(None if photos is None else read_folder(photos), labels)
    if photos is None:
        raise InputError("no pictures were named: give a folder of class folders, or --labels TABLE")
    return read_folder(photos)


def predict(model: Annotated[str, typer.Argument(metavar="MODEL", help="A file that `dmn4 fit` wrote.")],
            images: Annotated[list[str] | None, typer.Argument(metavar="IMAGES", help="Pictures or folders; with -o or "
                              "--parquet also patterns, lists, tables, tars and addresses.")] = None,
            csv: Annotated[Path | None, typer.Option("--csv", help="Also write a table to this file.")] = None,
            as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all probabilities.")] = False,
            reject: Annotated[str | None, typer.Option("--reject", metavar="[SHARE]", help="Say `none of these`; SHARE "
                              "of the pictures of your classes may be refused (0.1 if it is left out).")] = None,
            sets: Annotated[float | None, typer.Option("--sets", metavar="COVERAGE", help="Also list the classes that "
                            "contain the right one with this probability, such as 0.9.")] = None,
            report: Annotated[Path | None, typer.Option(help="Also write a page for the browser: the least sure first, "
                              "with evidence and corrections; beside true labels where folders are named as classes.")]
            = None,
            sort_into: Annotated[Path | None, typer.Option(help="Copy pictures into class folders here.")] = None,
            link: Annotated[bool, typer.Option("--link", help="With --sort-into: link instead of copying.")] = False,
            watch: Annotated[Path | None, typer.Option(help="Continue with what arrives in this folder, until Ctrl-C.")]
            = None, resume: Annotated[bool, typer.Option("--resume", help="Skip what is in the --csv file.")] = False,
            retry_errors: Annotated[bool, typer.Option("--retry-errors", help="With --resume: try again what could not "
                                                                              "be read.")] = False,
            out: bulk.Out = None, parquet: bulk.Parquet = None, engine: bulk.Engine = "local",
            address: bulk.Address = None, workers: bulk.Workers = None, gpus_per_worker: bulk.Gpus = 0,
            device: bulk.Device = None, column: bulk.Column = None,
            format: bulk.Format = "parquet") -> None:                                                # noqa: A002
    """Name the class of every picture, one line each. An unreadable picture becomes a line with its error."""
    from dmn4.classify.keeping import opened
    from dmn4.classify.plain import PlainClassifier
    from dmn4.data.folders import existing_folder
    from dmn4.files import write_json
    from dmn4.sorting import files, predictions
    from dmn4.sorting.report import Report
    from dmn4.sorting.sorted_folder import SortedFolder
    from dmn4.sorting.tasks import as_task

    share = read_share(reject)
    if format == "label-studio" and (out is None or parquet is not None):
        raise InputError("--format label-studio writes one file: name it with -o tasks.json")
    if not images and watch is None:
        raise InputError("no pictures were named: give files, folders, or --watch FOLDER")
    tasks: list[dict[str, Any]] | None = [] if format == "label-studio" else None
    if tasks is None and (out is not None or parquet is not None):
        if watch or csv or as_json or report or sort_into or resume or retry_errors:
            raise InputError("-o and --parquet go with none of --csv, --json, --report, --sort-into, --watch, --resume "
                             "and --retry-errors; the same command continues where it stopped")
        note(bulk.predict_in_bulk(model, images or [], out, parquet, engine=engine, reject=share, column=column,
                                  format=format, workers=workers, device=device, address=address,
                                  gpus_per_worker=gpus_per_worker))
        return
    if engine != "local" or address or workers is not None or gpus_per_worker or column or device:
        raise InputError("--engine, --address, --workers, --gpus-per-worker, --device and --column need -o OUT or "
                         "--parquet FILE")
    if report is not None and resume:
        raise InputError("--report shows the pictures of one run: leave out --resume, or write it when the run is done")
    paths = files.gather(images) if images else []
    arriving = files.arrivals(existing_folder(watch)) if watch else iter(())
    name = predictions.model_name(Path(model), share) if csv else ""
    table = predictions.Table(csv, name, resume, retry_errors)
    folder = None if sort_into is None else SortedFolder(sort_into, link)
    classifier = opened(PlainClassifier, model)
    if share and not classifier.calibration_.rejects(share):
        note(classifier.calibration_.promise(share))
    paths = [path for path in paths if str(path) not in table.done]
    pages = None if report is None else Report(classifier, paths)
    rows = chain(predictions.predict_each(classifier, watched(paths, "predicting", as_json), share, coverage=sets),
                 predictions.predict_each(classifier, arriving, share, batch_size=1, coverage=sets))
    start, verdicts = time.monotonic(), []
    try:
        for prediction in rows:
            if folder is not None:
                folder.take(prediction)                            # first: what is in the table is in its place
            table.add(prediction)
            if tasks is not None:
                tasks += filter(None, [as_task(prediction, Path(model).name)])
            if pages is not None:
                pages.add(prediction)
            if as_json:
                verdicts.append(prediction.as_dict)
            else:
                typer.echo(prediction.line)
    except KeyboardInterrupt:
        if watch is None:
            raise
    finally:
        table.save()
        if as_json:
            typer.echo(json.dumps(verdicts, indent=1))
        if table.count:
            note(bulk.summary(table.count, table.errors, time.monotonic() - start))
        if table.odd_names and csv:
            note(f"{table.odd_names:,} names of pictures are no UTF-8 text; {str(csv)!r} holds them byte for byte")
    if tasks is not None and out is not None:
        write_json(Path(out), tasks)
        note(f"{out}: {len(tasks):,} tasks; import it into Label Studio")
    if pages is not None and report is not None and table.errors < table.count:
        pages.write(report, watched)
        note(f"{report}: {report.stat().st_size / 1e6:.1f} MB; open it in a browser")
    if table.errors and table.errors == table.count:
        raise InputError(f"none of the {table.count} pictures can be read; the first: {table.first_error}")


def explain(model: Model, image: Annotated[Path, typer.Argument(metavar="IMAGE", help="One picture.")],
            out: Annotated[Path, typer.Option("--out", "-o", help="The picture to write.")] = Path("why.png"),
            reject: Annotated[str | None, typer.Option("--reject", metavar="[SHARE]", help="As in `dmn4 predict`.")]
            = None) -> None:
    """Draw why a picture gets its class: which patches voted, and what they matched."""
    from dmn4.classify.keeping import opened
    from dmn4.classify.plain import PlainClassifier
    from dmn4.evidence.draw import draw_explanation

    classifier = opened(PlainClassifier, model)
    explanation = classifier.explain(image, read_share(reject))
    draw_explanation(explanation, image, classifier.pictures_, path=out)
    typer.echo(f"{out}: {explanation.headline}")


# ------------------------------------------------------------------------------------------------ what a user sees

def read_share(text: str | None) -> float:
    """The share that --reject names: 0 without it, the usual one for --reject alone."""
    from dmn4.classify.verdict import refusable

    try:
        return refusable(False if text is None else True if text == "" else float(text))
    except ValueError:
        raise InputError(f"--reject is {text!r}; give the share of known pictures that may be refused, such as 0.1, or "
                         "nothing behind it") from None


def note(text: str) -> None:
    """Print one line beside the results."""
    print(f"dmn4: {text}", file=sys.stderr)


def watched(items: Sequence[Item], label: str, shown: bool = True) -> Iterator[Item]:
    """The items, with a progress bar beside them where lines of results do not pass anyway."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    hidden = not console.is_terminal or (not shown and sys.stdout.isatty())
    return iter(track(items, label, console=console, transient=True, disable=hidden))


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Inside, a warning is one line without file and line number."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", module=ODDITIES)
        warnings.showwarning = lambda message, *rest, **more: note(f"warning: {message}")
        yield
