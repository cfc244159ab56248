"""The version of the package and of its code, without importing anything heavy."""

import functools
import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SOURCE = "source"  # the version of a checkout that is not installed


def package_version() -> str:
    """Return the installed version, or `SOURCE` when run from a checkout."""
    try:
        return version("warmstart")
    except PackageNotFoundError:
        return SOURCE


@functools.cache
def code_digest() -> bytes:
    """Return a checksum of this package's code and of the version of torch."""
    digest = hashlib.sha256(version("torch").encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()
