"""Where files lie: paths of this machine and addresses of fsspec (s3://, gs://, http://); tried again, kept secret."""

import errno
import os
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ..errors import InputError
from ..files import check_regular
from ..images.files import Whole

PAUSES = (0.2, 1.0)                                           # seconds before the second and the third try
HOPELESS = (None, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP)     # of what is asked for, not of the place
URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
SECRET = re.compile(r"x-(amz|goog|ms)-.*|s[eprstv]|sig|signature|sk(oid|tid|t|e|s|v)|spr|awsaccesskeyid|googleaccessid|"
                    r"expires|policy|key-pair-id|key|auth|.*(token|password|secret|credential|api_?key)", re.IGNORECASE)
Result = TypeVar("Result")


def is_remote(address: str) -> bool:
    """Whether this is an address of fsspec, not a path of this machine."""
    return "://" in address


def public(address: str) -> str:
    """The address without user, password and signature, as text that can be written anywhere."""
    if not is_remote(address):
        return address.encode("utf-8", "backslashreplace").decode()
    parts = urlsplit(address)
    pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if not SECRET.fullmatch(pair[0])]
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=urlencode(pairs)))


def harmless(text: object) -> str:
    """One line of a message, with every address in it as `public` writes it."""
    return URL.sub(lambda match: public(match[0]), " ".join(str(text).split()))


def filesystem(address: str) -> tuple[Any, str]:
    """What fsspec reads this address with, and the path there."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise InputError(f"{public(address)!r} is read by fsspec: pip install 'dmn4[bulk]'") from None
    try:
        store, path = url_to_fs(address)
    except (ImportError, ValueError) as error:                # the package for s3:// is missing, or nobody knows x://
        raise InputError(f"cannot open {public(address)!r}: {harmless(error)}") from None
    return store, str(path)


def open_binary(address: str) -> AbstractContextManager[IO[bytes]]:
    """The file at an address, to be read."""
    if not is_remote(address):
        check_regular(Path(address))
        return Whole(address)
    store, path = filesystem(address)
    file: IO[bytes] = store.open(path, "rb")
    return file


def fetch(address: str) -> Path | bytes:
    """A picture as the package reads it: the path of a file of this machine, the content of one elsewhere."""
    if is_remote(address):
        store, path = filesystem(address)
        content: bytes = patiently(lambda: store.cat_file(path), address)
        return content
    if not os.path.exists(address):
        patiently(lambda: os.stat(address), address)
    return Path(address)


def patiently(read: Callable[[], Result], address: str) -> Result:
    """What `read` gives; tried again where the source may come back, an InputError where it does not."""
    for pause in (*PAUSES, None):
        try:
            return read()
        except InputError:
            raise
        except Exception as error:                            # every store has its own errors
            if pause is None or is_gone(error, address):
                raise InputError(f"cannot read {public(address)!r}: {reason(error)}") from None
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def is_gone(error: Exception, address: str) -> bool:
    """Whether to try again would not help: a file is missing where its folder is there, or is itself what is wrong."""
    if is_remote(address):
        return isinstance(error, FileNotFoundError)
    number = getattr(error, "errno", None)                    # None: not of the system, which may come back
    return number in HOPELESS or (number == errno.ENOENT and Path(address).parent.exists())


def reason(error: Exception) -> str:
    """What went wrong, in words that hold no credentials."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return harmless(getattr(error, "strerror", None) or error) or type(error).__name__
