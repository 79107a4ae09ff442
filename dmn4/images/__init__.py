"""Images as arrays and tensors: find, read, resize, normalise, augment; refuses what is not an image."""

from .batches import Transform, crop_batch, jitter_batch, normalise, random_boxes, resize_batch
from .files import SUFFIXES, Crop, Source, describe_source, find_images, is_hidden, read_image, resize_image
from .presets import DMN4, IMAGENET, TRANSFORMS

__all__ = [
    "DMN4", "IMAGENET", "SUFFIXES", "TRANSFORMS", "Crop", "Source", "Transform", "crop_batch", "describe_source",
    "find_images", "is_hidden", "jitter_batch", "normalise", "random_boxes", "read_image", "resize_batch",
    "resize_image",
]
