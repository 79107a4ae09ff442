"""dmn4 suggest | suspects | curve."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dmn4.errors import InputError

from .photos import Model, note, plain_warnings, watched

if TYPE_CHECKING:
    from dmn4.classify.plain import PlainClassifier


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the root command."""
    app.command(epilog="Example: dmn4 suggest inbox/ -n 20, and later: dmn4 suggest birds.dmn4 inbox/ -n 20")(suggest)
    app.command(epilog="Example: dmn4 suspects birds.dmn4 photos/ --csv suspects.csv")(suspects)
    app.command(epilog="Example: dmn4 curve birds.dmn4 --csv curve.csv -o curve.png")(curve)


def suggest(paths: Annotated[list[Path], typer.Argument(metavar="[MODEL] IMAGES", help="A file that `dmn4 fit` wrote, "
                                                                                       "if any; pictures or folders.")],
            count: Annotated[int, typer.Option("-n", help="How many pictures.", min=1)] = 10,
            csv: Annotated[Path | None, typer.Option("--csv", help="Also write a table to this file, with an empty "
                                                                   "column for the labels.")] = None,
            backbone: Annotated[str, typer.Option(help="Without a model: the network that looks at the pictures.")]
            = "efficientnet_lite0") -> None:
    """Choose the pictures whose labels would help most, the most useful first; without a model, a varied first set."""
    from dmn4.classify.keeping import opened
    from dmn4.classify.plain import PlainClassifier
    from dmn4.files import write_file
    from dmn4.sorting.cells import on_screen, table_text
    from dmn4.sorting.files import gather, readable_files

    model, pictures = (paths[0], paths[1:]) if is_model(paths[0]) else (None, paths)
    if not pictures:
        raise InputError(f"no pictures to choose from: write dmn4 suggest {model} IMAGES")
    with plain_warnings():
        images = readable_files(gather(pictures))
    classifier = PlainClassifier(backbone=backbone) if model is None else opened(PlainClassifier, model)
    chosen = [str(images[place]) for place in classifier.suggest(watched(images, "looking at pictures"), count)]
    for name in chosen:
        typer.echo(on_screen(name))
    if csv is not None:
        write_file(csv, table_text(("image", "label"), [{"image": name, "label": ""} for name in chosen]))
    note(f"{len(chosen)} of {len(images):,} pictures" + (f"; write their labels into {csv}" if csv else ""))


def suspects(model: Model,
             photos: Annotated[Path | None, typer.Argument(metavar="[PHOTOS]", help="The folder that the model was "
                               "fitted to, so that files can be named.")] = None,
             csv: Annotated[Path | None, typer.Option("--csv", help="Also write a table to this file.")] = None,
             wrong: Annotated[float, typer.Option(help="The share of labels that may be wrong; with more, up to 0.5, "
                                                       "more pictures are named.")] = 0.1) -> None:
    """List labelled pictures that the others would name differently, worst first."""
    from dmn4.classify.keeping import opened
    from dmn4.classify.plain import PlainClassifier
    from dmn4.files import write_file
    from dmn4.sorting.cells import on_screen, table_text

    classifier = opened(PlainClassifier, model)
    names = names_of_pictures(classifier, photos)
    rows = [{"image": names[suspect.picture], "label": str(suspect.label), "looks_like": str(suspect.looks_like),
              "probability": f"{suspect.probability:.4f}", "most_like": names[suspect.nearest_there]}
             for suspect in classifier.suspects(wrong)]
    for row in rows:
        typer.echo("\t".join(map(on_screen, row.values())))
    if csv is not None:
        write_file(csv, table_text(("image", "label", "looks_like", "probability", "most_like"), rows))
    note(f"{len(rows)} of {len(names):,} labelled pictures would be named differently by the others")


def curve(model: Model,
          csv: Annotated[Path | None, typer.Option("--csv", help="Also write a table to this file.")] = None,
          as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
          out: Annotated[Path | None, typer.Option("--out", "-o", help="Also draw the curve to this picture.")] = None,
          ) -> None:
    """Say whether more labels would help: accuracy now and with more labels, for each class, and what is confused."""
    from dmn4.classify.keeping import opened
    from dmn4.classify.plain import PlainClassifier
    from dmn4.files import write_file
    from dmn4.sorting import curves
    from dmn4.sorting.cells import table_text

    learning_curve = opened(PlainClassifier, model).curve(watched)
    if csv is not None:
        write_file(csv, table_text(curves.COLUMNS, curves.rows_of(learning_curve)))
    if out is not None:
        curves.draw_curve(learning_curve, out)
    for line in [json.dumps(curves.as_dict(learning_curve), indent=1)] if as_json else curves.lines_of(learning_curve):
        typer.echo(line)


def names_of_pictures(classifier: "PlainClassifier", photos: Path | None) -> list[str]:
    """What the pictures of a classifier are called: files of the folder it was fitted to, or class and number."""
    from dmn4.classify.held_out import place_in_class
    from dmn4.data.folders import read_folder
    from dmn4.sorting.corrections import split
    from dmn4.sorting.files import readable

    shots = classifier.shots_.rows(classifier.shots_.look == 0)
    labels = [str(classifier.classes_[label]) for label in shots.labels.tolist()]
    if photos is None:
        number = place_in_class(shots.labels).tolist()
        return [f"{label} #{place + 1}" for label, place in zip(labels, number, strict=True)]
    with plain_warnings():
        images = split(readable(read_folder(photos))).images
    if [images.classes[label] for label in images.labels] != labels:
        raise InputError(f"the pictures in {str(photos)!r} are not those of the model: they changed since it was "
                         "fitted, or it was fitted to others")
    return [str(path) for path in images.images]


def is_model(path: Path) -> bool:
    """Whether a path is a model file rather than a picture or a folder of pictures."""
    from dmn4.images import SUFFIXES

    return path.suffix == ".dmn4" or (path.is_file() and path.suffix.lower() not in SUFFIXES)
