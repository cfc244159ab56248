"""Copy the files that URLs name to this machine, from every place that fsspec knows.

Without permission, nothing is read from this machine or from private networks, whatever a name or a
redirect leads to: addresses are checked where connections are made.
"""

import glob
import hashlib
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from warmstart.errors import WarmstartError
from warmstart.files import create_file, new_temporary

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HTTP = ("http", "https")
_HOSTED = ("ftp", "sftp", "ssh", "smb", "webhdfs", "hdfs")  # their URLs begin with a host
_IN_EXTRA = ("s3", "http", "https")  # schemes of the extra `remote`


class _RefusedError(OSError):
    """A connection or redirect that needs permission."""


def is_url(name: str) -> bool:
    """Tell whether a name is a URL."""
    return _URL.match(name) is not None


def is_public(address: str) -> bool:
    """Tell whether an IP address is neither of this machine nor of a private network."""
    ip = ipaddress.ip_address(address.split("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_global and not ip.is_multicast


def local_name(name: str, allow_private: bool = False) -> str:
    """Return the name of a local file: for a URL, that of a copy."""
    return str(local_copies(name, allow_private)[0]) if is_url(name) else name


def local_copies(
    url: str, allow_private: bool = False, is_wanted: Callable[[str], bool] = bool
) -> list[Path]:
    """Return local copies of the files that a URL or glob names; of a folder, the wanted files."""
    scheme = url.split(":")[0].lower()
    guard = _Guard()
    with _one_sentence(url, scheme, guard):
        import fsspec

        options = {} if allow_private else guard.options(url, scheme)
        filesystem, path = fsspec.core.url_to_fs(url, **options)
        copies = [_copy(filesystem, name) for name in _names(filesystem, path, is_wanted)]
    if not copies:
        raise WarmstartError(f"{url}: no file matches this address")
    return copies


@contextmanager
def _one_sentence(url: str, scheme: str, guard: "_Guard") -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        is_ours = scheme in _IN_EXTRA
        advice = "pip install 'warmstart[remote]'" if is_ours else "install it with pip"
        raise WarmstartError(
            f"{url}: a package for such addresses is not installed ({error}); {advice}"
        ) from None
    except Exception as error:  # each file system has errors of its own
        if guard.refused:
            raise WarmstartError(
                f"{url}: {guard.refused}, which is read only with --allow-private-urls"
            ) from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise WarmstartError(f"{url}: cannot be read ({reason})") from None


class _Guard:
    """Lets connections go to public addresses only, and redirects not to weaker schemes."""

    def __init__(self) -> None:
        self.refused = ""  # what was refused; libraries wrap the error

    def options(self, url: str, scheme: str) -> dict[str, Any]:
        """Return the options of the file system; check what it cannot check itself."""
        if "::" in url:
            self._refuse("it joins several addresses by ::")
        if scheme in _HTTP:
            return {"get_client": self._client, "skip_instance_cache": True}
        if scheme in _HOSTED:
            for *_, address in socket.getaddrinfo(urlsplit(url).hostname, None):
                self._check(str(address[0]))
        return {}

    async def _client(self, **options: Any) -> Any:
        import aiohttp

        redirects = aiohttp.TraceConfig()
        redirects.on_request_redirect.append(self._check_redirect)
        connector = aiohttp.TCPConnector(socket_factory=self._open_socket)
        return aiohttp.ClientSession(connector=connector, trace_configs=[redirects], **options)

    def _open_socket(self, info: Any) -> socket.socket:
        family, kind, protocol, _, address = info
        self._check(address[0])
        return socket.socket(family, kind, protocol)

    async def _check_redirect(self, session: Any, context: Any, redirect: Any) -> None:
        target = redirect.url.join(type(redirect.url)(redirect.response.headers["Location"]))
        if target.scheme not in (redirect.url.scheme, "https"):
            self._refuse(f"it is redirected to {target}, another scheme")

    def _check(self, address: str) -> None:
        if not is_public(address):
            self._refuse(f"it leads to {address}, on this machine or in a private network")

    def _refuse(self, problem: str) -> None:
        self.refused = problem
        raise _RefusedError(problem)


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
    folder = cache_folder() / hashlib.sha256(version.encode()).hexdigest()[:16]
    copy = folder / PurePosixPath(name).name
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with new_temporary(copy, create_file) as temporary:
            filesystem.get_file(name, str(temporary))
            os.replace(temporary, copy)
    return copy


def cache_folder() -> Path:
    """Return the folder of copies that any command may make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "warmstart"
