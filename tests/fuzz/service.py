"""A small service in a process of its own, for requests that are no requests; it ends with its standard input."""

import contextlib
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from toy_service import Patches, picture, running

from dmn4 import FewShotClassifier
from dmn4.web.limits import Limits


def main() -> None:
    """Serve a classifier of two colours; the first line that is printed is the port."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "colours.dmn4")
        pictures = [picture(colour, seed) for colour in ("red", "blue") for seed in (1, 2)]
        FewShotClassifier(backbone=Patches()).fit(pictures, ["red", "red", "blue", "blue"]).save(path)
        with running(Patches(), path, limits=Limits(workers=1)) as address:
            print(address.rpartition(":")[2], flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                sys.stdin.read()


if __name__ == "__main__":
    main()
