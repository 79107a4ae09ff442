"""Two stages: classify the base classes, then play episodes (Eq. 6, 7)."""
