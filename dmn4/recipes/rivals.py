"""The published settings of the systems that the paper compares with, each with its own form of the backbone.

A name is METHOD-BACKBONE, then the data set if it has settings of its own there (mini, tiered, cub, inat), then the
shots if they change the training (5shot). Where a paper leaves something open, the comment says what stands here in
its place.
"""

from dataclasses import replace
from typing import Any

from .paper import CONV4, FIVE_SHOTS, RESNET
from .paper import PRETRAINING as OWN_PRETRAINING
from .settings import Pretraining, Training

Settings = dict[str, Any]

ADAM: Settings = {"optimizer": "adam", "betas": "0.9,0.999", "lr": 1e-3, "weight_decay": 0.0, "schedule": "steps"}
SGD: Settings = {"optimizer": "sgd", "schedule": "steps"}
POOLED: Settings = {"dense": 0.0, "validate": "meta-baseline"}     # the loss reads one vector an image
PRETRAIN_FORM: Settings = {"backbone": "resnet12", "backbone_options": "drop=0.1,square=5"}
META_FORM: Settings = {"backbone": "resnet12", "backbone_options": "drop=0"}       # after such a first stage
CLASSIC: Settings = {"backbone": "conv4-classic"}
MANY_WAYS: Settings = {"ways": 20, "shots": 5, "queries": 15}

# ------------------------------------------------------------------------------------------------------------ stage one

RFS = Pretraining(**POOLED, **SGD, transform="rfs", head="linear", epochs=100, batch=64, lr=0.05, milestones="60,80")
MARGIN = Pretraining(**POOLED, transform="negative-margin", head="margin", scale=30.0, margin=-0.02, epochs=400,
                     batch=256, optimizer="adam", betas="0.9,0.999", lr=3e-3, weight_decay=1e-4, warmup=0.25)
META_BASELINE = Pretraining(**POOLED, **SGD, backbone="resnet12", size=80, epochs=100, milestones="90",
                            backbone_options="blocks=64-128-256-512", head="linear", transform="meta-baseline-pretrain")
FEAT_FIRST = Pretraining(**POOLED, transform="feat-pretrain-conv4", head="linear", epochs=500, batch=16, lr=1e-3,
                         schedule="steps", milestones="75,150,300", validate_ways=16)
FRN_FIRST = Pretraining(**{**POOLED, "validate": "frn"}, **SGD, **PRETRAIN_FORM, transform="frn", head="frn",
                        epochs=350, milestones="200,300", validate_options="scaling=sqrt")
DEEPEMD_FIRST = Pretraining(**POOLED, **SGD, backbone="resnet12", transform="deepemd", head="linear", epochs=120,
                            every=30, decay=0.2)

RIVAL_PRETRAINING: dict[str, Pretraining] = {
    # With `teacher`, the distilled second generation of RFS.
    "rfs-conv4": replace(RFS, **CLASSIC, backbone_options="pools=3,pooled=mean,start=kaiming"),
    "rfs-resnet12": replace(RFS, **PRETRAIN_FORM),
    # Margin and weight decay for Conv-4 are not published: those of ResNet-12 at one shot.
    "negative-margin-conv4": replace(MARGIN, **CLASSIC),
    "negative-margin-resnet12": replace(MARGIN, **PRETRAIN_FORM),
    "meta-baseline-resnet12": META_BASELINE,
    "meta-baseline-resnet12-tiered": replace(META_BASELINE, batch=512, epochs=120, milestones="40,80"),
    "feat-conv4": replace(FEAT_FIRST, **CLASSIC, backbone_options="pooled=max", optimizer="adam", betas="0.9,0.999",
                          weight_decay=0.0),
    "feat-resnet12": replace(FEAT_FIRST, **PRETRAIN_FORM, transform="feat-pretrain-resnet12"),
    "centroid-conv4": Pretraining(**{**POOLED, **ADAM, "schedule": "constant"}, **CLASSIC, transform="centroid",
                                  head="arc", vector="flat", scale=20.0, margin=0.01, epochs=600, batch=64,
                                  validate_episodes=400),
    # About 8,000 steps of 200 images.
    "dc-conv4": Pretraining(**SGD, **CLASSIC, backbone_options="blocks=64-64-128-128", pooled=0.0, epochs=42, batch=200,
                            milestones="32", validate="dc"),
    "dc-resnet12": Pretraining(**SGD, backbone="resnet12", backbone_options="blocks=64-128-256-512", pooled=0.0,
                               epochs=42, batch=200, milestones="32", validate="dc"),
    "deepemd-conv4": replace(DEEPEMD_FIRST, **CLASSIC),       # the paper ran its released code on Conv-4
    "deepemd-resnet12": DEEPEMD_FIRST,
    "e3bm-resnet12": DEEPEMD_FIRST,                           # E3BM's own settings are not published
    "frn-resnet12": FRN_FIRST,
    "frn-resnet12-tiered": replace(FRN_FIRST, epochs=90, milestones="30,60"),
    "mcl-resnet12": replace(FRN_FIRST, transform="mcl"),
    # Heads that the paper ran, or that stand here, under its own schedule.
    **dict.fromkeys(("matchingnet-resnet12", "protonet-resnet12", "relationnet-resnet12"), OWN_PRETRAINING["resnet12"]),
}

# ------------------------------------------------------------------------------------------------------------ stage two

SOLVER = Training(**SGD, transform="metaoptnet", epochs=60, episodes=8000, step_episodes=8, shots=15, queries=6,
                  milestones="20,40,50", factors="0.06,0.012,0.0024", smoothing=0.1)
SOLVER_TIERED: Settings = {"shots": 10, "smoothing": 0.0}
SOLVER_CONV4: Settings = {**CLASSIC, "backbone_options": "bias=0,start=kaiming"}
DSN_CONV4 = Training(**ADAM, **CLASSIC, method="dsn", transform="dmn4-conv4", epochs=600, episodes=100, every=100,
                     decay=0.5)
FEAT = Training(method="feat", transform="feat-conv4", epochs=200, episodes=100, schedule="steps", decay=0.5,
                method_lr=10.0)
# FRN's settings for a backbone that was not pre-trained; an epoch is a pass in which no image comes twice.
FRN_CUB = Training(**SGD, **CLASSIC, **MANY_WAYS, reuse="no", transform="frn", lr=0.1, epochs=800, episodes=0,
                   milestones="400")
FRN_INAT = replace(FRN_CUB, **{**ADAM, "weight_decay": 5e-4}, epochs=100, milestones="", every=20, decay=0.5)
FRN_PROTONET: Settings = {"method": "protonet", "method_options": "vector=flat,temperature=1600"}
FRN_ONE_SHOT: Settings = {"ways": 30, "shots": 1}
META_BASELINE_SECOND = Training(backbone="resnet12", backbone_options="drop=0", method="meta-baseline", size=80,
                                transform="meta-baseline", lr=1e-3, schedule="constant", epochs=20, episodes=800,
                                step_episodes=4)
TAPNET = Training(optimizer="adamw", betas="0.9,0.999", lr=1e-3, weight_decay=0.5, schedule="steps",
                  backbone="resnet12", method="tapnet", transform="dn4", ways=20, queries=8, epochs=60, episodes=1000,
                  milestones="40,50",
                  backbone_options="blocks=64-128-256-512,slope=0,shortcut=3x3,pooling=ceil,drop=0.3-0.2-0.2-0.2,"
                                   "square=0")
E3BM = Training(**SGD, **META_FORM, method="e3bm", transform="e3bm", lr=5e-4, epochs=100, episodes=100, decay=0.5,
                queries=16, kernels="scale", method_lr=0.002)
MATCHINGNET = Training(**ADAM, **CLASSIC, method="matchingnet", method_options="vector=flat,scale=100",
                       transform="closerlook", epochs=600, episodes=100, every=600)
# What the paper calls "our reimplementation under the same setting": its own backbone and schedule under other heads.
SAME_PROTONET: Settings = {"method": "protonet", "method_options": "temperature=64"}
SAME_RELATIONNET: Settings = {"method": "relationnet", "method_options": "form=pooled,shots=mean,loss=binary"}
# Its settings are not published: the paper's schedule, and the head as it is.
SAME_MATCHINGNET: Settings = {"method": "matchingnet", "method_options": ""}
FRN_SECOND = Training(**SGD, **META_FORM, **MANY_WAYS, reuse="no", method="frn", method_options="scaling=sqrt",
                      transform="frn", lr=1e-3, epochs=150, episodes=0, milestones="70,120")
DEEPEMD = Training(**SGD, method="deepemd", transform="deepemd", lr=5e-4, epochs=100, episodes=50, decay=0.5)
SEMI: Settings = {"unlabelled": 5, "labelled": 0.4}
KMEANS = Training(**{**ADAM, "weight_decay": 5e-5}, **CLASSIC, **SEMI, method="pn-semi", transform="dmn4-conv4",
                  epochs=200, episodes=1000, every=25, decay=0.5)

RIVAL_TRAINING: dict[str, Training] = {
    "matchingnet-conv4": MATCHINGNET,
    "matchingnet-conv4-5shot": replace(MATCHINGNET, shots=5, validate_shots=5, epochs=400, every=400),
    "matchingnet-resnet12": replace(RESNET, **SAME_MATCHINGNET),
    "matchingnet-resnet12-5shot": replace(RESNET, **FIVE_SHOTS, **SAME_MATCHINGNET),
    "protonet-conv4": replace(CONV4, **SAME_PROTONET),
    "protonet-conv4-5shot": replace(CONV4, **FIVE_SHOTS, **SAME_PROTONET),
    "protonet-resnet12": replace(RESNET, **SAME_PROTONET),
    "protonet-resnet12-5shot": replace(RESNET, **FIVE_SHOTS, **SAME_PROTONET),
    # On the fine-grained sets the paper quotes FRN's run.
    "protonet-conv4-cub": replace(FRN_CUB, **FRN_PROTONET, **FRN_ONE_SHOT),
    "protonet-conv4-cub-5shot": replace(FRN_CUB, **FRN_PROTONET, validate_shots=5),
    "protonet-conv4-inat": replace(FRN_INAT, **FRN_PROTONET, **FRN_ONE_SHOT),
    "protonet-conv4-inat-5shot": replace(FRN_INAT, **FRN_PROTONET, validate_shots=5),
    "relationnet-conv4": replace(CONV4, **SAME_RELATIONNET),
    "relationnet-conv4-5shot": replace(CONV4, **FIVE_SHOTS, **SAME_RELATIONNET),
    "relationnet-resnet12": replace(RESNET, **SAME_RELATIONNET),
    "relationnet-resnet12-5shot": replace(RESNET, **FIVE_SHOTS, **SAME_RELATIONNET),
    # Halved every 2,000 episodes; how many there were is not published.
    "protonet-2017": Training(**ADAM, **CLASSIC, method="protonet", method_options="vector=flat", transform="dn4",
                              ways=30, epochs=200, episodes=100, every=20, decay=0.5),
    # Its own encoder is another network of 19 x 19 places; halved every 100,000 episodes.
    "relationnet-2018": Training(**ADAM, method="relationnet", method_options="momentum=1", transform="dmn4-conv4",
                                 epochs=500, episodes=1000, every=100, decay=0.5, clip=0.5),
    "metaoptnet-conv4": replace(SOLVER, **SOLVER_CONV4, method="metaoptnet"),
    "metaoptnet-resnet12": replace(SOLVER, **PRETRAIN_FORM, method="metaoptnet"),
    "metaoptnet-rr-conv4": replace(SOLVER, **SOLVER_CONV4, method="metaoptnet-rr"),
    "metaoptnet-rr-resnet12": replace(SOLVER, **PRETRAIN_FORM, method="metaoptnet-rr"),
    "metaoptnet-conv4-tiered": replace(SOLVER, **SOLVER_CONV4, **SOLVER_TIERED, method="metaoptnet"),
    "metaoptnet-resnet12-tiered": replace(SOLVER, **PRETRAIN_FORM, **SOLVER_TIERED, method="metaoptnet"),
    # The decay of Chainer's Adam does not depend on the learning rate: 5e-4 a step is 0.5 at 1e-3.
    "tapnet-resnet12": TAPNET,
    "tapnet-resnet12-5shot": replace(TAPNET, shots=5, validate_shots=5),
    "dsn-conv4": DSN_CONV4,
    "dsn-conv4-5shot": replace(DSN_CONV4, **FIVE_SHOTS, every=50),
    "dsn-resnet12": replace(SOLVER, **PRETRAIN_FORM, method="dsn", method_options="form=resnet",
                            transform="dsn-resnet12", epochs=80, queries=5, milestones="12,30,45,57",
                            factors="0.025,0.0032,0.0014,0.00052"),
    "dsn-resnet12-tiered": replace(SOLVER, **PRETRAIN_FORM, method="dsn", method_options="form=resnet",
                                   transform="dsn-resnet12", epochs=80, queries=5, milestones="20,45,59,68",
                                   factors="0.012,0.0052,0.00054,0.00012"),
    "meta-baseline-resnet12": META_BASELINE_SECOND,
    "meta-baseline-resnet12-tiered": replace(META_BASELINE_SECOND, step_episodes=10, episodes=2000),
    "feat-conv4": replace(FEAT, **CLASSIC, optimizer="adam", betas="0.9,0.999", lr=1e-4, weight_decay=0.0, every=20,
                          method_options="temperature=64,auxiliary_temperature=16,balance=1"),
    "feat-conv4-5shot": replace(FEAT, **CLASSIC, **FIVE_SHOTS, optimizer="adam", betas="0.9,0.999", lr=1e-4,
                                weight_decay=0.0, every=20,
                                method_options="temperature=32,auxiliary_temperature=64,balance=0.1"),
    "feat-resnet12": replace(FEAT, **META_FORM, transform="feat-resnet12", lr=2e-4, every=40,
                             method_options="temperature=64,auxiliary_temperature=64,balance=0.01"),
    "feat-resnet12-5shot": replace(FEAT, **META_FORM, **FIVE_SHOTS, transform="feat-resnet12", lr=2e-4, every=40,
                                   method_options="temperature=64,auxiliary_temperature=32,balance=0.1"),
    "feat-resnet12-tiered": replace(FEAT, **META_FORM, transform="feat-resnet12", lr=2e-4, every=20,
                                    method_options="temperature=64,auxiliary_temperature=64,balance=0.1"),
    "feat-resnet12-tiered-5shot": replace(FEAT, **META_FORM, **FIVE_SHOTS, transform="feat-resnet12", lr=2e-4, every=40,
                                          method_options="temperature=32,auxiliary_temperature=64,balance=0.1"),
    # Only the factors of the kernels, batch norm and the method's layers learn; the generators hardly: 1e-6.
    "e3bm-resnet12": E3BM,
    "e3bm-resnet12-5shot": replace(E3BM, shots=5, validate_shots=5),
    "deepemd-conv4": replace(DEEPEMD, **CLASSIC),
    "deepemd-resnet12": replace(DEEPEMD, **META_FORM),
    # One model for all shots.
    "frn-resnet12": FRN_SECOND,
    "frn-resnet12-tiered": replace(FRN_SECOND, epochs=60, milestones="30,50"),
    # The paper ran its released code, whose settings for Conv-4 are those of the fine-grained sets.
    "frn-conv4": replace(FRN_CUB, method="frn"),
    "frn-conv4-inat": replace(FRN_INAT, method="frn"),
    "ctx-conv4": replace(FRN_CUB, method="ctx"),
    "ctx-conv4-inat": replace(FRN_INAT, method="ctx"),
    "covariance-conv4": Training(**ADAM, **CLASSIC, **MANY_WAYS, backbone_options="pools=3,last=signed,bias=0",
                                 method="covariance", transform="dmn4-conv4", epochs=50, episodes=100, decay=0.5),
    "dn4-2019": Training(backbone="conv4-dn4", method="dn4", method_options="k=3", transform="dn4", optimizer="adam",
                         lr=5e-3, weight_decay=0.0, schedule="steps", decay=0.05, epochs=30, episodes=10_000),
    "mcl-conv4": replace(CONV4, **CLASSIC, backbone_options="bias=0,slope=0.2,start=xavier", method="mcl"),
    "mcl-resnet12": replace(RESNET, **META_FORM, method="mcl", method_options="", transform="mcl"),
    "mcl-conv4-cub": replace(FRN_CUB, **FRN_ONE_SHOT, backbone_options="bias=0,slope=0.2,start=xavier", method="mcl",
                             method_options="gamma=40", transform="mcl-stored", epochs=1200, milestones="400,800"),
    # Semi-supervised (Sec. 4.5): 40 % of each class labelled, five unlabelled images of each class.
    "mn4-semi-conv4": replace(CONV4, **SEMI, method="mn4-semi", episodes=5000, step_episodes=1),
    "mn4-semi-conv4-5shot": replace(CONV4, **SEMI, **FIVE_SHOTS, method="mn4-semi", episodes=10_000, step_episodes=2),
    "pn-semi-conv4": KMEANS,
    "pn-semi-masked-conv4": replace(KMEANS, method="pn-semi-masked"),
    "tpn-semi-conv4": replace(KMEANS, method="tpn-semi", weight_decay=0.0, every=10),
    "dsn-semi-conv4": replace(DSN_CONV4, **SEMI, method="dsn-semi"),
}
