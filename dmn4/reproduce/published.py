"""The paper's numbers (5-way accuracy in per cent), as printed; rows marked there as taken from elsewhere included."""

# 1 and 5 shots on miniImageNet, then on tieredImageNet. None: not printed.
Four = tuple[float | None, float | None, float | None, float | None]
NONE: Four = (None, None, None, None)

SOTA_CONV4: dict[str, Four] = {
    "matchingnet": (43.56, 55.31, None, None),
    "protonet": (52.32, 69.74, 53.19, 72.28),
    "relationnet": (52.12, 66.90, 54.33, 69.95),
    "metaoptnet": (52.87, 68.76, 54.71, 71.76),
    "dc": (49.84, 69.64, None, None),
    "tapnet": NONE,
    "dn4": (54.66, 72.92, 56.86, 72.16),
    "dsn": (51.78, 68.99, 53.22, 71.06),
    "deepemd": (52.15, 65.52, 50.89, 66.12),
    "negative-margin": (52.84, 70.41, None, None),
    "meta-baseline": NONE,
    "centroid": (53.14, 71.45, None, None),
    "feat": (55.15, 71.61, None, None),
    "e3bm": (53.20, 65.10, 52.10, 70.20),
    "rfs": (55.25, 71.56, 56.18, 72.99),
    "rfs-distill": (55.88, 71.65, 56.76, 73.21),
    "frn": (54.87, 71.56, 55.54, 74.68),
    "mn4": (55.57, 73.64, 57.01, 73.74),
    "dmn4": (55.77, 74.22, 56.99, 74.13),
}

SOTA_RESNET12: dict[str, Four] = {
    "matchingnet": (63.08, 75.99, 68.50, 80.60),
    "protonet": (62.67, 77.88, 68.48, 83.46),
    "relationnet": (60.97, 75.12, 64.71, 78.41),
    "metaoptnet": (62.64, 78.63, 65.99, 81.56),
    "dc": (62.53, 79.77, None, None),
    "tapnet": (61.65, 76.36, 63.08, 80.26),
    "dn4": (65.35, 81.10, 69.60, 83.41),
    "dsn": (62.64, 78.83, 67.39, 82.85),
    "deepemd": (65.91, 82.41, 71.16, 86.03),
    "negative-margin": (63.85, 81.57, None, None),
    "meta-baseline": (63.17, 79.26, 68.62, 83.29),
    "centroid": (59.88, 80.35, 69.29, 85.97),
    "feat": (66.78, 82.05, 70.80, 84.79),
    "e3bm": (64.09, 80.29, 71.34, 85.82),
    "rfs": (62.02, 79.64, 69.74, 84.41),
    "rfs-distill": (64.82, 82.14, 71.52, 86.03),
    "frn": (66.45, 82.83, 72.06, 86.89),
    "mn4": (66.53, 83.39, 71.95, 85.66),
    "dmn4": (66.58, 83.52, 72.10, 85.72),
}

# Conv-4; 1 and 5 shots on CUB, meta-iNat, tiered meta-iNat.
FINE_GRAINED: dict[str, tuple[float | None, ...]] = {
    "protonet": (63.73, 81.50, 55.34, 76.43, 34.34, 57.13),
    "covariance": (None, None, 57.15, 77.20, 36.06, 57.48),
    "dsn": (66.01, 85.41, 58.08, 77.38, 36.82, 60.11),
    "ctx": (69.64, 87.31, 60.03, 78.80, 36.83, 60.84),
    "dn4": (73.42, 90.38, 62.32, 79.76, 43.82, 64.17),
    "frn": (73.48, 88.43, 62.42, 80.45, 43.91, 63.36),
    "mn4": (78.10, 92.14, 62.87, 80.22, 43.96, 66.93),
    "dmn4": (78.36, 92.16, 63.00, 80.58, 44.10, 67.18),
}

# miniImageNet, 1 shot, networks made from ResNet-12: r descriptors x d dimensions, in the order of the table.
DESCRIPTOR_SIZE: dict[str, tuple[float, ...]] = {
    "dn4": (65.35, 61.73, 57.00, 65.35, 62.60, 63.00, 59.16, 61.15, 61.73),
    "mn4": (66.53, 62.80, 58.02, 66.53, 63.92, 64.13, 59.22, 61.89, 62.80),
    "dmn4": (66.58, 62.94, 58.73, 66.58, 64.32, 64.77, 59.25, 62.23, 62.94),
}

# Conv-4, 1 shot: DN4 with ODM at 30, 25, 20, 15 %, then MN4.
ODM: dict[str, tuple[float, ...]] = {
    "cub": (77.02, 77.31, 76.19, 77.23, 78.10),
    "tieredimagenet": (56.66, 56.58, 56.23, 55.97, 57.01),
    "miniimagenet": (54.40, 53.76, 53.99, 53.73, 55.57),
}
MN4_KEPT = {"cub": 20.9, "tieredimagenet": 20.0, "miniimagenet": 25.0}      # share of query descriptors, per cent

# Conv-4; 1 and 5 shots on miniImageNet, then on CUB: votes by similarity (NBNN) and by rank.
RANK: dict[str, dict[str, Four]] = {
    "dn4": {"nbnn": (54.66, 72.92, 73.42, 90.38), "rank": (48.84, 58.28, 54.80, 77.15)},
    "odm": {"nbnn": (54.50, 72.60, 76.34, 92.12), "rank": (51.42, 69.00, 65.93, 88.69)},
    "mn4": {"nbnn": (55.57, 73.64, 78.10, 92.28), "rank": (52.71, 71.53, 72.20, 89.99)},
    "dmn4": {"nbnn": (55.77, 74.22, 78.36, 92.11), "rank": (53.97, 72.60, 70.58, 88.80)},
}

# miniImageNet, Conv-4, 40 % of the labels: 1 and 5 shots, then the same with distractors. DN4: labelled images alone.
SEMI: dict[str, Four] = {
    "pn-semi": (50.09, 64.59, 48.70, 63.55),
    "pn-semi-masked": (50.41, 64.39, 49.04, 62.96),
    "tpn-semi": (52.78, 66.42, None, None),
    "dsn-semi": (53.01, 69.12, 51.01, 67.12),
    "dn4": (51.46, 68.75, None, None),
    "mn4-semi": (53.48, 71.06, 52.73, 70.31),
    "dmn4-semi": NONE,
}
