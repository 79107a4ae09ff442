"""Install a wheel in a new environment and do the demo's main job with it, outside the checkout.

    python tests/try_wheel.py dist/dmn4-0.1.0-py3-none-any.whl
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PHOTOGRAPHS = """
from pathlib import Path
from PIL import Image
from dmn4.data.samples import draw_clutter

drawn = draw_clutter(3, 5, 0.3, 224)
for number, (image, label) in enumerate(zip(drawn.images, drawn.labels, strict=True)):
    for folder in ["inbox"] if number % 5 == 4 else [f"photos/{drawn.classes[label]}"]:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(f"{folder}/{drawn.classes[label]}-{number}.png")
"""
JOB = [["fit", "photos/", "-o", "mine.dmn4"], ["predict", "mine.dmn4", "inbox/", "--csv", "names.csv"],
       ["explain", "mine.dmn4", "inbox", "-o", "why.png"], ["--version"]]


def try_wheel(wheel: Path) -> None:
    """Fit, predict and explain with the installed package; an exception or a wrong name ends it."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        venv.create(home / "env", with_pip=True)
        bin_ = home / "env" / ("Scripts" if os.name == "nt" else "bin")
        elsewhere = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        run = {"cwd": home, "check": True, "env": elsewhere}
        subprocess.run([bin_ / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c",
                        ROOT / "constraints.txt", f"{wheel.resolve()}[pretrained]"], **run)
        subprocess.run([bin_ / "python", "-c", PHOTOGRAPHS], **run)
        for words in JOB:
            given = [str(next((home / "inbox").iterdir())) if word == "inbox" else word for word in words]
            subprocess.run([bin_ / "dmn4", *given], **run)
        rows = (home / "names.csv").read_text().splitlines()[1:]
        right = sum(Path(row.split(",")[0]).name.startswith(row.split(",")[1]) for row in rows)
        assert len(rows) == 3, rows
        assert (home / "why.png").stat().st_size > 10_000
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; fit, predict and explain run outside the checkout, "
              f"{right} of {len(rows)} pictures named rightly")


if __name__ == "__main__":
    try_wheel(Path(sys.argv[1]))
