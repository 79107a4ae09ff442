"""What a type checker says of the public names; mypy reads this file with the package, and nothing runs it."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from PIL import Image
from torch import Tensor, nn

import dmn4
from dmn4.backbones.base import Backbone
from dmn4.classify.curve import LearningCurve
from dmn4.classify.suspects import Suspect
from dmn4.evidence.explanation import Explanation
from dmn4.methods.base import Learnt, Method
from dmn4.methods.neighbors import keep_mutual


def classifier(paths: list[Path], pictures: list[Image.Image], array: np.ndarray, network: nn.Module) -> None:
    clf = dmn4.FewShotClassifier(method="dmn4", backbone="efficientnet_lite0", shortlist=None)
    dmn4.FewShotClassifier(backbone=network, method_options={"vote": "rank"})
    assert_type(clf.fit(paths, ["cat", "dog"]), dmn4.FewShotClassifier)
    assert_type(clf.fit(pictures, [0, 1], unlabelled=[array]), dmn4.FewShotClassifier)
    assert_type(clf.partial_fit(["a.jpg"], ["cat"]).forget("dog"), dmn4.FewShotClassifier)
    assert_type(clf.predict(paths, reject=0.05), np.ndarray)
    assert_type(clf.predict_set(paths, coverage=0.9), list[list[Any]])
    assert_type(clf.predict_proba(paths), np.ndarray)
    assert_type(clf.decision_function(paths), np.ndarray)
    assert_type(clf.explain(array, reject=True), Explanation)
    assert_type(clf.suspects(), list[Suspect])
    assert_type(clf.curve(), LearningCurve)
    assert_type(clf.suggest(paths, n=3), np.ndarray)
    clf.save("birds.dmn4")
    assert_type(dmn4.load("birds.dmn4", backbone=network), dmn4.FewShotClassifier)
    clf.predict(3)                                            # type: ignore[arg-type]
    dmn4.FewShotClassifier(shortlist="all")                   # type: ignore[arg-type]


def research(support: Tensor, labels: Tensor, query: Tensor) -> None:
    method = dmn4.build_method("dmn4", channels=64)
    assert_type(method, Method)
    learnt = method.learn(support, labels)
    assert_type(learnt, Learnt)
    assert_type(method.answer(learnt, query), Tensor)
    backbone = dmn4.build_backbone("conv4", weights=None)
    assert_type(backbone, Backbone)
    assert_type(method(backbone(support), labels, backbone(query)), Tensor)
    assert_type(backbone.out_channels, int)
    assert_type(keep_mutual(query, support, labels, "dmnn"), Tensor)
    dmn4.build_method(4)                                      # type: ignore[arg-type]


def many_pictures(clf: dmn4.FewShotClassifier) -> None:
    dmn4.predict_many(clf, "photos", "names.parquet", engine="local", reject=True)
    error: ValueError = dmn4.InputError("a mistake of the user")
    raise error
