"""Episodes: drawn from labels, played over maps that were embedded once."""

from .maps import MapStore, embed_all
from .sampling import Episode, no_reuse_epoch, sample_episodes, split_labelled

__all__ = ["Episode", "MapStore", "embed_all", "no_reuse_epoch", "sample_episodes", "split_labelled"]
