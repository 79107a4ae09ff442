"""Evidence on pictures: partners joined by lines, kept against dropped, heat maps, receptive fields."""

from .evidence import draw_explanation
from .fields import Task, draw_receptive, field_maps
from .heat import draw_kept, overlay
from .sheet import PALETTE, class_colours

__all__ = [
    "PALETTE", "Task", "class_colours", "draw_explanation", "draw_kept", "draw_receptive", "field_maps", "overlay",
]
