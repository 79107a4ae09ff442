"""Teaching a classifier: classes and their pictures come, change and go; pictures are ruled out."""

from collections.abc import Hashable, Iterable
from typing import Self

import numpy as np
import torch

from ..errors import InputError
from ..images import Source
from ..images.looks import check_images, thumbnail
from ..methods.vectors import pooled
from .counterexamples import ALL, Counterexamples
from .labels import checked_labels, joined_labels
from .learning import Learner, check_fitted
from .pictures import Pictures


class Teachable(Learner):
    """What a person does to a classifier."""

    def fit(self, images: Iterable[Source], y: Iterable[Hashable],
            unlabelled: Iterable[Source] | None = None) -> Self:
        """Learn the classes of `y` from its pictures; `unlabelled` ones help the semi-supervised methods."""
        classes, numbers = np.unique(checked_labels(y), return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y holds one class ({classes.tolist()[0]!r}); a classifier needs at least two")
        if hasattr(self, "calibration_"):                     # until it is there again the classifier is not fitted
            del self.calibration_
        self.parts_ = self._assemble(unlabelled is not None)
        maps = [] if unlabelled is None else [self.embed(pixels).half() for pixels in self._pixels(unlabelled)]
        self.unlabelled_ = torch.cat(maps) if maps else None
        self.ruled_out_ = Counterexamples.none()
        shots, pictures = self._look_at(images, numbers)
        return self._keep(classes, shots, pictures)

    def partial_fit(self, images: Iterable[Source], y: Iterable[Hashable],
                    classes: Iterable[Hashable] | None = None) -> Self:
        """Add pictures of known or of new classes; `classes` is there for scikit-learn and changes nothing."""
        if not hasattr(self, "calibration_"):
            return self.fit(images, y)
        both = joined_labels(self.classes_, checked_labels(y))
        classes, numbers = np.unique(both, return_inverse=True)
        renumbered = torch.from_numpy(numbers[: len(self.classes_)])
        shots, pictures = self._look_at(images, numbers[len(self.classes_):])
        return self._keep(classes, self.shots_.renamed(renumbered).joined(shots), self.pictures_ + pictures)

    def rule_out(self, images: Iterable[Source], y: Iterable[Hashable | None]) -> Self:
        """Learn what pictures are not: `y` names a class for each that it is not of; None: it is of none of them.

        Pictures like these are given the class less easily, and more easily none of these.
        """
        check_fitted(self)
        check_images(images)
        names, labels = self.classes_.tolist(), list(y)
        unknown = next((label for label in labels if label is not None and label not in names), None)
        if unknown is not None:
            raise InputError(f"there is no class {unknown!r} to rule out; the classes are "
                             f"{', '.join(map(repr, names))}")
        means, pictures = list[torch.Tensor](), list[bytes]()
        for pixels in self._pixels(images):
            means.append(pooled(self.embed(pixels)))
            pictures += [thumbnail(picture) for picture in pixels]
        if len(pictures) != len(labels) or not labels:
            raise InputError(f"{len(labels)} labels were given for {len(pictures)} pictures; one each is needed")
        numbers = torch.tensor([ALL if label is None else names.index(label) for label in labels])
        self.ruled_out_ = self.ruled_out_.joined(Counterexamples(torch.cat(means), numbers, Pictures(pictures)))
        return self._keep(self.classes_, self.shots_, self.pictures_)

    def take_back(self, number: int) -> Self:
        """Unlearn one of the pictures of `rule_out`, by its number; those behind it move up by one."""
        check_fitted(self)
        if not 0 <= number < len(self.ruled_out_):
            raise InputError(f"there is no ruled out picture {number}; there are {len(self.ruled_out_)}")
        self.ruled_out_ = self.ruled_out_.rows(torch.arange(len(self.ruled_out_)) != number)
        return self._keep(self.classes_, self.shots_, self.pictures_)

    def forget(self, label: Hashable) -> Self:
        """Remove a class and its pictures."""
        check_fitted(self)
        names = self.classes_.tolist()
        if label not in names:
            raise InputError(f"there is no class {label!r} to forget; the classes are {', '.join(map(repr, names))}")
        if len(names) == 2:
            raise InputError(f"without {label!r} one class is left; a classifier needs at least two")
        shots, stay = self.shots_.without(names.index(label))
        return self._keep(np.delete(self.classes_, names.index(label)), shots, self.pictures_.chosen(stay))

    def relabel(self, picture: int, label: Hashable | None) -> Self:
        """Give a labelled picture, by its number, another label, known or new; None removes the picture.

        A class that is left without pictures goes; after a removal the pictures behind it move up by one.
        """
        check_fitted(self)
        if not 0 <= picture < len(self.pictures_):
            raise InputError(f"there is no picture {picture}; the last one is {len(self.pictures_) - 1}")
        classes, shots, pictures = self.classes_, self.shots_, self.pictures_
        if label is None:
            shots = shots.without_picture(picture)
            pictures = pictures.chosen(number for number in range(len(pictures)) if number != picture)
        else:
            classes, numbers = np.unique(joined_labels(classes, checked_labels([label])), return_inverse=True)
            renumbered = torch.from_numpy(numbers)
            shots = shots.renamed(renumbered[:-1]).moved(picture, int(renumbered[-1]))
        shots, stay = shots.closed_up()
        if len(stay) < 2:
            raise InputError(f"without this picture only {classes.tolist()[stay.item()]!r} is left; "
                             "a classifier needs at least two classes")
        return self._keep(classes[stay.numpy()], shots, pictures)
