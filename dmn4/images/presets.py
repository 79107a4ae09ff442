"""How each published method prepares its pictures, for training and for testing."""

from dataclasses import replace

from .batches import DMN4_MEAN, DMN4_STD, Transform

Colour = tuple[float, float, float]
DMN4: tuple[Colour, Colour] = DMN4_MEAN, DMN4_STD
IMAGENET: tuple[Colour, Colour] = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
METAOPTNET = (120.396 / 255, 115.594 / 255, 104.540 / 255), (70.682 / 255, 68.276 / 255, 72.545 / 255)
CIFAR_FS = (129.377 / 255, 124.106 / 255, 112.478 / 255), (68.209 / 255, 65.431 / 255, 70.459 / 255)

AS_STORED = Transform()
FLIPPED = Transform(flip=True)
EXACT_84 = Transform(resize=(84, 84))
CENTRE_92 = Transform(resize=(92, 92), crop="centre")              # distorts the aspect
CENTRE_92_SHORTER = Transform(resize=92, crop="centre")            # keeps the aspect
RANDOM_92 = Transform(resize=(92, 92), crop="random", flip=True)
REFLECTED = Transform(crop="random", padding=8, reflect=True, flip=True)
PADDED = Transform(crop="random", padding=8, flip=True, jitter=0.4)
WINDOW = Transform(crop="resized", flip=True)
WINDOW_JITTER = replace(WINDOW, jitter=0.4)
CIFAR_PADDED = Transform(size=32, crop="random", padding=4, flip=True, jitter=0.4)
CIFAR_AS_STORED = Transform(size=32)


def pair(train: Transform, test: Transform, colours: tuple[Colour, Colour] = DMN4) -> tuple[Transform, Transform]:
    """Both transforms with the same mean and standard deviation."""
    mean, std = colours
    return replace(train, mean=mean, std=std), replace(test, mean=mean, std=std)


TRANSFORMS: dict[str, tuple[Transform, Transform]] = {
    "dmn4-conv4": pair(replace(EXACT_84, flip=True), EXACT_84),
    "dmn4-resnet12": pair(RANDOM_92, CENTRE_92),                                       # and wrn28-10, meta-training
    "dmn4-pretrain": pair(WINDOW_JITTER, CENTRE_92),
    "dmn4-pretrain-cifar": pair(replace(WINDOW_JITTER, size=32), CIFAR_AS_STORED,
                                ((0.5071, 0.4866, 0.4409), (0.2009, 0.1984, 0.2023))),
    "mcl": pair(RANDOM_92, CENTRE_92),
    "mcl-stored": pair(REFLECTED, AS_STORED),                                          # data sets stored at 84 x 84
    "deepemd": pair(WINDOW, CENTRE_92),
    "e3bm": pair(WINDOW, CENTRE_92),
    "frn": pair(WINDOW_JITTER, CENTRE_92_SHORTER, IMAGENET),                           # its type 0
    "frn-padded": pair(PADDED, CENTRE_92, IMAGENET),                                   # its type 1
    "metaoptnet": pair(PADDED, AS_STORED, METAOPTNET),
    "dsn-resnet12": pair(PADDED, AS_STORED, METAOPTNET),
    "rfs": pair(PADDED, AS_STORED, METAOPTNET),
    "feat-pretrain-conv4": pair(WINDOW_JITTER, CENTRE_92_SHORTER, IMAGENET),
    "feat-pretrain-resnet12": pair(WINDOW_JITTER, CENTRE_92_SHORTER, METAOPTNET),
    "feat-conv4": pair(CENTRE_92_SHORTER, CENTRE_92_SHORTER, IMAGENET),
    "feat-resnet12": pair(CENTRE_92_SHORTER, CENTRE_92_SHORTER, METAOPTNET),
    "meta-baseline-pretrain": pair(replace(WINDOW, size=80), Transform(size=80, resize=(80, 80)), IMAGENET),
    "meta-baseline": pair(Transform(size=80, resize=(80, 80)), Transform(size=80, resize=(80, 80)), IMAGENET),
    "closerlook": pair(WINDOW_JITTER, Transform(resize=(96, 96), crop="centre"), IMAGENET),
    "centroid": pair(WINDOW_JITTER, Transform(resize=(96, 96), crop="centre"), IMAGENET),
    "negative-margin": pair(WINDOW_JITTER, Transform(resize=(96, 96), crop="centre"),
                            ((0.507, 0.487, 0.441), (0.267, 0.257, 0.276))),
    "dn4": pair(EXACT_84, EXACT_84, ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))),               # the release of 2019
    "meta-inat": pair(FLIPPED, AS_STORED, ((0.4905, 0.4961, 0.4330), (0.1737, 0.1713, 0.1779))),
    "cifar-fs": pair(CIFAR_PADDED, CIFAR_AS_STORED, CIFAR_FS),                         # MetaOptNet
    "cifar-fs-rfs": pair(CIFAR_PADDED, CIFAR_AS_STORED, ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))),
}
