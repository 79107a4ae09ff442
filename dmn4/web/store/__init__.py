"""What the service keeps: a database for what is small, files for classifiers."""

from .records import Access, Caller, Classifier, Revision, Token
from .store import Store

__all__ = ["Access", "Caller", "Classifier", "Revision", "Store", "Token"]
