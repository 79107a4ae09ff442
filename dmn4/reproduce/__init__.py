"""Every table and figure of the paper, by name. A new one is one more line here."""

from . import semi, times
from .figures import FIGURES
from .tables import descriptor_size, fine_grained, odm, rank, sota_mini, sota_tiered
from .workshop import Entry, Workshop, table

ENTRIES: dict[str, Entry] = {
    "sota-mini": table("all methods on miniImageNet (Table 1)", sota_mini),
    "sota-tiered": table("all methods on tieredImageNet (Table 1)", sota_tiered),
    "fine-grained": table("CUB, meta-iNat and tiered meta-iNat (Table 2)", fine_grained),
    "descriptor-size": table("more or fewer descriptors (Table 3)", descriptor_size),
    "odm": table("mining by tau against mutual neighbours (Table 4)", odm),
    "rank": table("votes by similarity against votes by count (Table 5)", rank),
    "semi": semi.ENTRY,
    "time": times.ENTRY,
    **FIGURES,
}

__all__ = ["ENTRIES", "Entry", "Workshop", "table"]
