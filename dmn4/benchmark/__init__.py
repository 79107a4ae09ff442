"""Speed and memory, beside the floor."""

from .heads import benchmark_heads

__all__ = ["benchmark_heads"]
