"""Tiny networks as they come from elsewhere: ONNX files and folders of Hugging Face, with random weights."""

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from dmn4.backbones.onnxgraph import exported

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
WORDS = {"vocab_size": 99, "max_position_embeddings": 9, "bos_token_id": 1, "eos_token_id": 2}
TOWERS = {"text_config": {**SMALL, **WORDS},
          "vision_config": {**SMALL, "image_size": 64, "patch_size": 16}}
STAGES = {"hidden_sizes": [8, 8, 16, 32], "depths": [1, 1, 1, 1], "image_size": 64}
PATCHES = {**SMALL, "image_size": 64, "patch_size": 16}

# Class names of transformers, options, and (C, H, W) of the map of a picture of 64 pixels.
FAMILIES = {
    "Dinov2": ({**SMALL, "image_size": 56, "patch_size": 14, "mlp_ratio": 2}, (32, 4, 4)),
    "Dinov2WithRegisters": ({**SMALL, "image_size": 56, "patch_size": 14, "num_register_tokens": 4}, (32, 4, 4)),
    "DINOv3ViT": ({**PATCHES, "num_register_tokens": 4}, (32, 4, 4)),
    "DINOv3ConvNext": (STAGES, (32, 2, 2)),
    "ConvNextV2": (STAGES, (32, 2, 2)),
    "ConvNext": (STAGES, (32, 2, 2)),
    "CLIP": (TOWERS, (32, 4, 4)),
    "CLIPVision": (PATCHES, (32, 4, 4)),
    "Siglip": (TOWERS, (32, 4, 4)),
    "SiglipVision": (PATCHES, (32, 4, 4)),
    "ViT": (PATCHES, (32, 4, 4)),
    "Beit": ({**PATCHES, "vocab_size": 99}, (32, 4, 4)),
    "Swin": ({"image_size": 64, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
              "window_size": 4}, (16, 8, 8)),
}
PROCESSOR = {"do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4],
             "size": {"height": 64, "width": 64}}


def model_folder(folder: Path, family: str = "Dinov2") -> Path:
    """A folder with a tiny random model of this family, as Hugging Face keeps it."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**FAMILIES[family][0])
    getattr(transformers, f"{family}Model")(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return folder


class Tokens(nn.Module):
    """Patches of 8 pixels as tokens behind a class token, and a vector: (B, 3, h, w) -> (B, 1 + M, 6), (B, 6)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, 6, 8, stride=8)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        places = self.patches(images).flatten(2).transpose(1, 2)
        return places.mean(1), torch.cat([places.mean(1, keepdim=True), places], dim=1)


def onnx_file(path: Path, network: nn.Module, side: int = 32, outputs: tuple[str, ...] = ("maps",)) -> Path:
    """The network as an ONNX file for pictures of this side."""
    path.write_bytes(exported(network, {"pixels": torch.zeros(1, 3, side, side)}, outputs, ["pixels", *outputs]))
    return path
