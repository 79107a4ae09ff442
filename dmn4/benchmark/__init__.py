"""Speed and memory, beside the floor."""

from .evaluation import benchmark_evaluation
from .heads import benchmark_heads

__all__ = ["benchmark_evaluation", "benchmark_heads"]
