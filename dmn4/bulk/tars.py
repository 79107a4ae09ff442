"""Tars that strangers made: their pictures, and no time or room for what a header only claims to hold."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from ..errors import InputError
from ..files import check_regular
from ..images import SUFFIXES, is_hidden
from .addresses import is_remote
from .units import MOST

LARGEST = 1 << 36                                             # bytes of a member; to pass over more takes too long
LONGEST = 1 << 20                                             # bytes of a header that holds a name
NAMES = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}


class Member(tarfile.TarInfo):
    """A header of a tar; one that holds a name is read whole, so it has to be short."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """The header in these bytes."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in NAMES and not 0 <= member.size <= LONGEST:
            raise InputError(f"it is no whole tar: a name in it would have {member.size:,} bytes")
        return member


def picture_members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members that are pictures by their names."""
    for member in tar:
        if not 0 <= member.size <= LARGEST:                   # the next member would be looked for behind so many bytes
            raise InputError(f"it is no whole tar: its member {member.name[:100]!r} would have {member.size:,} bytes")
        if is_picture(member):
            yield member


def is_picture(member: tarfile.TarInfo) -> bool:
    """Whether a member of a tar is a picture by its name."""
    return (member.isfile() and member.name.lower().endswith(SUFFIXES)
            and not any(is_hidden(part) for part in member.name.removeprefix("./").split("/")))


def tar_parts(address: str) -> list[tuple[int, int]]:
    """Parts of a tar by the number of their members; a compressed or remote one is read in one go."""
    if is_remote(address) or not address.lower().endswith(".tar"):
        return [(0, -1)]
    check_regular(Path(address))
    try:
        with tarfile.open(address, "r:", tarinfo=Member) as tar:
            count = sum(1 for _ in picture_members(tar))
    except Exception:                                         # tarfile raises what it meets
        return [(0, -1)]                                      # who reads it says what is wrong
    return [(start, min(start + MOST, count)) for start in range(0, count, MOST)]
