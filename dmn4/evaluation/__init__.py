"""Accuracy over many episodes, with intervals and paired differences."""
