"""Files that a URL names, by fsspec: `s3://`, `gs://`, `https://` and others.

They are read from copies, which stay in the cache folder of the user. A copy is used again as long
as the file it was made of has not changed.
"""

import glob
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from warmstart.errors import WarmstartError
from warmstart.temporary import create_file, new_temporary

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(name: str) -> bool:
    """Tell whether a name is that of a file elsewhere."""
    return _URL.match(name) is not None


def local_name(name: str) -> str:
    """Return the name itself, or that of a copy if it is the URL of a file."""
    return str(local_copies(name)[0]) if is_url(name) else name


def local_copies(url: str, is_wanted: Callable[[str], bool] = bool) -> list[Path]:
    """Return copies of the files that a URL or a glob refers to; of a folder, those wanted."""
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        names = _names(filesystem, path, is_wanted)
        copies = [_copy(filesystem, name) for name in names]
    except ImportError as error:
        advice = "pip install 'warmstart[s3]'" if url.startswith("s3:") else "install it with pip"
        raise WarmstartError(
            f"{url}: a package for such addresses is not installed ({error}); {advice}"
        ) from None
    except Exception as error:  # each file system has errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise WarmstartError(f"{url}: cannot be read ({reason})") from None
    if not copies:
        raise WarmstartError(f"{url}: no file matches this address")
    return copies


def _names(filesystem: Any, path: str, is_wanted: Callable[[str], bool]) -> list[str]:
    if glob.has_magic(path):
        return sorted(name for name in filesystem.glob(path) if filesystem.isfile(name))
    if filesystem.isdir(path):
        return sorted(filter(is_wanted, filesystem.find(path)))
    return [path]


def _copy(filesystem: Any, name: str) -> Path:
    if filesystem.protocol == ("file", "local"):
        return Path(name)
    version = f"{filesystem.unstrip_protocol(name)} {filesystem.ukey(name)}"
    folder = _cache_folder() / hashlib.sha256(version.encode()).hexdigest()[:16]
    copy = folder / PurePosixPath(name).name
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with new_temporary(copy, create_file) as (temporary, _):
            filesystem.get_file(name, str(temporary))
            os.replace(temporary, copy)
    return copy


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "warmstart"
