"""Settings of the two training stages as values, by name: the paper's, its rivals', and those for two CPU cores."""

from .paper import PRETRAINING as OWN_PRETRAINING
from .paper import TRAINING as OWN_TRAINING
from .rivals import RIVAL_PRETRAINING, RIVAL_TRAINING
from .settings import Pretraining, Recipe, Training, adjusted, learning_rate, parse_options

PRETRAINING: dict[str, Pretraining] = OWN_PRETRAINING | RIVAL_PRETRAINING
TRAINING: dict[str, Training] = OWN_TRAINING | RIVAL_TRAINING

__all__ = ["PRETRAINING", "TRAINING", "Pretraining", "Recipe", "Training", "adjusted", "learning_rate", "parse_options"]
