"""Data sets: anybody's folders, the benchmarks as they lie around, decoded once."""
