"""dmn4 export: a classifier, or a backbone alone, as an ONNX graph."""

from pathlib import Path
from typing import Annotated

import typer

from dmn4.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command of this file to the root command."""
    app.command(epilog="Example: dmn4 export birds.dmn4 -o birds.onnx")(export)


def export(model: Annotated[Path | None, typer.Argument(metavar="MODEL", help="A file that `dmn4 fit` wrote.")] = None,
           out: Annotated[Path | None, typer.Option("-o", "--out", help="The ONNX file to write.")] = None,
           backbone: Annotated[str | None, typer.Option(help="Write this network alone, instead of a model.")] = None,
           weights: Annotated[str | None, typer.Option(help="With --backbone: a .safetensors file.")] = None,
           layer: Annotated[str | None, typer.Option(help="With --backbone: the layer whose map it gives.")] = None,
           image_size: Annotated[int | None, typer.Option(help="With --backbone: side of the pictures.", min=8)] = None,
           int8: Annotated[Path | None, typer.Option(metavar="PICTURES", help="With --backbone: whole numbers of 8 "
                                                     "bits, scaled to the pictures of this folder.")] = None,
           ) -> None:
    """Write a classifier as one ONNX graph: a picture in, probabilities, "none of these" and kept patches out."""
    from dmn4.backbones.onnxgraph import OPSET
    from dmn4.classify.export import export_classifier
    from dmn4.classify.export_network import export_backbone
    from dmn4.classify.keeping import opened
    from dmn4.classify.plain import PlainClassifier

    if (model is None) == (backbone is None):
        raise InputError("give a model file, or --backbone NAME to write a network alone")
    if int8 is not None and backbone is None:
        raise InputError("--int8 goes with --backbone; then fit a classifier with --backbone onnx:FILE")
    if out is None or out.suffix != ".onnx":
        raise InputError(f"-o is {str(out) if out else 'missing'}; name the file to write, such as birds.onnx")
    if backbone is not None:
        facts, alike = export_backbone(backbone, out, weights, layer, image_size, int8)
        says = f"normalised pictures (B, 3, {facts['image_size']}, {facts['image_size']}) in, maps out"
        typer.echo(f"{out}: {size(out)}, opset {OPSET}; {says}\n{out.with_suffix('.json')}: how pictures are prepared")
        if alike is not None:
            typer.echo(f"int8: a descriptor's cosine with itself before is {alike:.3f}, on average over other pictures")
        typer.echo(f"next: dmn4 fit PHOTOS/ -o birds.dmn4 --backbone onnx:{out}")
        return
    assert model is not None
    classifier = opened(PlainClassifier, model)
    agreement = export_classifier(classifier, out)
    side = classifier.parts_.transform.size
    typer.echo(f"{out}: {size(out)}, opset {OPSET}; bytes (1, {side}, {side}, 3) of one picture in\n"
               f"{out.with_suffix('.json')}: the classes, in order\n"
               f"ONNX Runtime, on the labelled pictures: {agreement}")


def size(path: Path) -> str:
    """How large a file is, in words."""
    return f"{path.stat().st_size / 1e6:.1f} MB"
