"""Feature maps -> scores: every method by its name, in reading order."""

import inspect
from typing import Any

from ..errors import check_options, choose
from .base import Method
from .centroid import Centroid
from .covariance import Covariance
from .ctx import CTX
from .dc import DC
from .deepemd import DeepEMD
from .dmn4 import DMN4
from .dmn4_linear import DMN4Linear
from .dn4 import DN4
from .dsn import DSN
from .dsn_semi import DSNSemi
from .e3bm import E3BM
from .feat import FEAT
from .frn import FRN
from .matchingnet import MatchingNet
from .mcl import MCL
from .meta_baseline import MetaBaseline
from .metaoptnet import MetaOptNet, MetaOptNetRidge
from .mn4 import MN4
from .mn4_semi import DMN4LinearSemi, DMN4Semi, MN4Semi
from .negative_margin import NegativeMargin
from .odm import ODM
from .pn_semi import PNSemi, PNSemiMasked
from .protonet import ProtoNet
from .relationnet import RelationNet
from .rfs import RFS
from .tapnet import TapNet
from .tpn_semi import TPNSemi

METHODS: dict[str, type[Method]] = {
    "dn4": DN4,
    "mn4": MN4,
    "dmn4": DMN4,
    "odm": ODM,
    "mcl": MCL,
    "matchingnet": MatchingNet,
    "protonet": ProtoNet,
    "relationnet": RelationNet,
    "metaoptnet": MetaOptNet,
    "metaoptnet-rr": MetaOptNetRidge,
    "tapnet": TapNet,
    "dsn": DSN,
    "deepemd": DeepEMD,
    "negative-margin": NegativeMargin,
    "meta-baseline": MetaBaseline,
    "feat": FEAT,
    "centroid": Centroid,
    "e3bm": E3BM,
    "rfs": RFS,
    "dc": DC,
    "frn": FRN,
    "ctx": CTX,
    "covariance": Covariance,
    "dmn4-linear": DMN4Linear,
    "pn-semi": PNSemi,
    "pn-semi-masked": PNSemiMasked,
    "tpn-semi": TPNSemi,
    "dsn-semi": DSNSemi,
    "mn4-semi": MN4Semi,
    "dmn4-semi": DMN4Semi,
    "dmn4-linear-semi": DMN4LinearSemi,
}


def build_method(name: str, **options: Any) -> Method:
    """The method of that name: build_method("dmn4", channels=64, vote="rank")."""
    method = METHODS[choose("method", name, METHODS)]
    check_options(f"method {name!r}", options, inspect.signature(method).parameters)
    return method(**options)
