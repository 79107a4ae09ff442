"""Trainings small enough for a test; as a program, one of them in a process of its own: toy_runs.py STAGE FOLDER."""

import sys
from pathlib import Path

import torch

from dmn4.data.samples import draw_clutter
from dmn4.recipes import Pretraining, Training
from dmn4.training.runs import Run

TRAIN = draw_clutter(6, 12, 0.2, 24, seed=0)
VAL = draw_clutter(5, 20, 0.2, 24, seed=1)
SMALL = {"backbone_options": "width=0.125", "size": 24, "validate_episodes": 4}
RECIPES = {
    "pretrain": Pretraining(**SMALL, epochs=5, batch=12),                                          # 30 steps
    "train": Training(**SMALL, epochs=5, episodes=12, step_episodes=2, queries=4, ways=3, lr=0.01, validate_ways=3),
    "shared": Training(**SMALL, epochs=5, episodes=12, step_episodes=2, queries=4, ways=3, lr=0.01, validate_ways=3,
                       batch_classes=4, batch_images=6, clip=1.0),
    "searched": Training(**SMALL, epochs=5, episodes=12, step_episodes=2, queries=4, ways=3, lr=0.01, validate_ways=3,
                         batch_classes=4, batch_images=6, batch_support=2, average=0.9, early_size=20),
}


def run_stage(name: str, folder: str | Path, **more: object) -> Run:
    """One of the trainings above, in this process."""
    from dmn4.training.pretrain import pretrain
    from dmn4.training.train import train

    recipe = more.pop("recipe", RECIPES[name])
    return (pretrain if name == "pretrain" else train)(TRAIN, folder, recipe, val=VAL, shown=False, **more)


if __name__ == "__main__":
    from lightning_fabric import Fabric

    torch.set_num_threads(1)
    processes = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    fabric = Fabric(accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto")
    fabric.launch()
    run_stage(sys.argv[1], sys.argv[2], resume=True, save_every=0.1, fabric=fabric)
