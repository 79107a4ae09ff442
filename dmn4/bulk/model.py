"""The model of a run as a file of this machine."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..classify.plain import PlainClassifier
from .addresses import fetch, is_remote


@contextmanager
def model_file(model: str | Path | PlainClassifier) -> Iterator[Path]:
    """The model file: as it is, fetched from its address, or saved for the while."""
    if isinstance(model, str | Path) and not is_remote(str(model)):
        yield Path(model)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.dmn4")
        if isinstance(model, PlainClassifier):
            model.save(path)
        else:
            content = fetch(str(model))
            assert isinstance(content, bytes)
            path.write_bytes(content)
        yield path
