"""The paper's settings of both stages (Sec. 4.2 and the released code), and those for an hour on two CPU cores."""

from dataclasses import replace
from typing import Any

from .settings import Pretraining, Training

PRETRAINING: dict[str, Pretraining] = {
    # Dense cosine classification: one embedding serves 361 losses. Smaller crops first: they cost half as much.
    # Chosen on val (docs/results/tried.md); miniImageNet, six times as large, had lr 0.2 and 14 epochs.
    "conv4-cpu": Pretraining(lr=0.3, epochs=40, early_size=60, validate_every=4),
    # The same for 5 x 5 maps, whose places see three times as much: eight points better on CUB after the first stage.
    "conv4-classic-cpu": Pretraining(backbone="conv4-classic", lr=0.3, epochs=60, early_size=60, validate_every=10),
    # Longer, with the head that dmn4 gains most from: Eq. 5 with descriptors that the base classes learn.
    "conv4-nbnn-cpu": Pretraining(head="nbnn", dense=0.0, scale=20.0, epochs=80, early_size=60, early_share=0.75,
                                  lr=0.2, warmup=0.1, validate_every=10, validate_episodes=300),
    "tiny": Pretraining(backbone_options="width=0.25", size=32, epochs=4, batch=32, validate_episodes=50),
    # The shared first stage of the released code: average pool, linear head, drop rates on.
    "resnet12": Pretraining(backbone="resnet12", backbone_options="drop=0.1,square=5", transform="dmn4-pretrain",
                            head="linear", dense=0.0, epochs=350, schedule="steps", milestones="100,200,250,300",
                            validate="meta-baseline", validate_ways=16, validate_every=5, validate_from=300),
    "wrn28-10": Pretraining(backbone="wrn28-10", transform="dmn4-pretrain", head="linear", dense=0.0, epochs=350,
                            schedule="steps", milestones="100,200,250,300", validate="meta-baseline",
                            validate_ways=16, validate_every=5, validate_from=300),
    "resnet12-cpu": Pretraining(backbone="resnet12", backbone_options="width=0.25,drop=0.1,square=5", epochs=20),
}

# Sec. 4.2: from scratch, Adam 1e-3, x 0.1 every 10 of 30 epochs; 20,000 episodes an epoch, four a step.
CONV4 = Training(transform="dmn4-conv4", optimizer="adam", lr=1e-3, weight_decay=0.0, schedule="steps", epochs=30,
                 episodes=20_000, step_episodes=4, validate_episodes=1000, validate_images=0)
# Sec. 4.2: after pre-training, momentum SGD 5e-4, x 0.5 every 10 of 40 epochs of 200 episodes; shots averaged.
RESNET = Training(backbone="resnet12", method_options="shots=mean,temperature=0.5", transform="dmn4-resnet12", lr=5e-4,
                  schedule="steps", decay=0.5, epochs=40, validate_episodes=1000, validate_images=0)
FIVE_SHOTS: dict[str, Any] = {"shots": 5, "queries": 10, "validate_shots": 5}

TRAINING: dict[str, Training] = {
    "conv4": CONV4,
    "conv4-5shot": replace(CONV4, **FIVE_SHOTS),
    "resnet12": RESNET,
    "resnet12-5shot": replace(RESNET, **FIVE_SHOTS),
    "resnet12-tiered": replace(RESNET, epochs=100),
    "resnet12-tiered-5shot": replace(RESNET, **FIVE_SHOTS, epochs=100),
    "resnet12-cub": replace(RESNET, every=20),
    "wrn28-10": replace(RESNET, backbone="wrn28-10", method_options="temperature=4", norm="frozen"),
    # After conv4-cpu: batch norm stays as the first stage left it, and eight episodes share a batch of embeddings.
    "conv4-cpu": Training(lr=1e-2, schedule="cosine", epochs=10, episodes=400, step_episodes=8, norm="frozen",
                          batch_classes=16, batch_images=8, queries=7, clip=10.0),
    # After conv4-nbnn-cpu: 32 episodes on one search, the batch's own statistics, a running mean of the weights.
    "conv4-many-cpu": Training(method_options="temperature=3", lr=0.06, warmup=0.1, epochs=16, episodes=3200,
                               step_episodes=32, batch_classes=16, batch_images=6, batch_support=1, queries=5,
                               average=0.98, clip=10.0, validate_every=4, validate_episodes=300),
    # After conv4-classic-cpu: some 15 to 20 descriptors vote where conv4 has 160, so the temperature is lower; all
    # classes of the batch are told apart at once.
    "conv4-classic-cpu": Training(backbone="conv4-classic", method_options="temperature=0.2", lr=0.05,
                                  schedule="cosine", epochs=6, episodes=400, step_episodes=4, batch_classes=16,
                                  batch_images=8, ways=16, queries=7, clip=10.0),
    "tiny": Training(backbone_options="width=0.25", size=32, optimizer="adam", lr=3e-3, weight_decay=0.0, epochs=4,
                     episodes=30, queries=5, schedule="constant", validate_episodes=50),
}
