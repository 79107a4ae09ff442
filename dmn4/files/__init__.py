"""Files: written whole or not at all, and believed only within bounds."""

from .documents import finite, matching, parse_json, read_json, read_text, write_json
from .tensors import check_finite, fill, load_tensors, part, save_tensors
from .whole import HOST, Buffer, check_regular, draft_beside, remove_drafts, reserve, write_file

__all__ = ["HOST", "Buffer", "check_finite", "check_regular", "draft_beside", "fill", "finite", "load_tensors",
           "matching", "parse_json", "part", "read_json", "read_text", "remove_drafts", "reserve", "save_tensors",
           "write_file", "write_json"]
