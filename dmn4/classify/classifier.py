"""FewShotClassifier: a scikit-learn classifier for photographs, from a few labelled ones of each kind."""

from pathlib import Path

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from torch import nn

from .keeping import opened
from .plain import PlainClassifier
from .verdict import Judgement

__all__ = ["FewShotClassifier", "Judgement", "load"]


class FewShotClassifier(ClassifierMixin, BaseEstimator, PlainClassifier):  # type: ignore[misc]
    """Names the kind of a photograph, given a few labelled photographs of each kind; no network is trained.

    Images are paths, PIL images, encoded bytes or uint8 arrays (h, w, 3), of mixed sizes, in a list or a stream.
    `weights`: None for those that come with the backbone, a shipped name, or a .safetensors file; `layer`: where
    efficientnet_lite0 is cut (None: 7x7x320); `image_size`: side to which pictures are scaled (None: the backbone's);
    `method_options`: such as {"vote": "rank"}; with efficientnet_lite0 the descriptors are measured from the mean of
    the labelled ones unless it says {"centre": "none"}; `shortlist`: how many classes are compared closely
    with a picture, of those that a linear head names first (None: 12 at most; as many as there are: all);
    `batch_size`: pictures in memory at a time.

    After `fit`: `classes_`, `calibration_`, `parts_` (backbone, preprocessing, method), `shots_` (the labelled
    pictures as maps), `pictures_` (the same as JPEG bytes, to be shown), `ruled_out_` (pictures that are not of a
    class), `unlabelled_` (maps, or None), `learnt_` (what the method derived from all of these).
    """

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True                         # paths
        return tags


def load(path: str | Path, backbone: nn.Module | None = None, device: str = "cpu") -> FewShotClassifier:
    """The classifier of a file that `save` wrote; it predicts the same. `backbone`: only if it was made elsewhere."""
    return opened(FewShotClassifier, path, backbone, device)
