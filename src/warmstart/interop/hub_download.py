"""Download a public model from the Hugging Face hub: weights as safetensors, never a pickle."""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from time import monotonic
from types import ModuleType
from typing import TypeVar

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.formats import duration
from warmstart.interop.formats import quiet
from warmstart.runs.facts import HubSource

T = TypeVar("T")

PREFIX = "hf:"
WEIGHTS = (".safetensors", ".safetensors.index.json")
SMALL = (".json", ".txt", ".model", ".spm")  # settings and vocabularies
_COMMIT = re.compile("[0-9a-f]{40,64}")
MOST_FILES = 1_000
MAX_GB = 8.0  # of all files together: more than any model that fits a small machine
PATIENCE_S = 300.0  # for an answer of any size
LOOK_S = 0.5  # between looks at whether a file has arrived
LEAST_SPEED = 50_000  # bytes a second, over a whole file


def is_hub_name(folder: str) -> bool:
    """Return whether a name stands for a model on the hub."""
    return folder.startswith(PREFIX)


def download(folder: str) -> tuple[Path, HubSource]:
    """Download the files of hf:OWNER/NAME[@REVISION]; return their folder and their source.

    Files stay in the hub's own cache, so a second download is free.
    """
    name, _, revision = folder.removeprefix(PREFIX).partition("@")
    if name.count("/") != 1 or not all(name.split("/")):
        raise WarmstartError(f"{folder} must be hf:OWNER/NAME, as in hf:google/bert_uncased_L-4")
    hub = _library().HfApi()
    with _explain_failures(folder), quiet():
        model_info = partial(hub.model_info, name, revision=revision or None, files_metadata=True)
        info = _within(PATIENCE_S, folder, model_info)
        files = [file for file in info.siblings or () if "/" not in file.rfilename]
        wanted = set(_wanted_files(folder, [file.rfilename for file in files]))
        asked = [file for file in files if file.rfilename in wanted]
        sizes = {file.rfilename: -1 if file.size is None else file.size for file in asked}
        is_commit = _COMMIT.fullmatch(info.sha or "")  # it names a folder here
        if not is_commit or min(sizes.values()) < 0:
            raise WarmstartError(f"{folder}: the hub gives no commit, or no size of a file")
        size_gb = sum(sizes.values()) / 1e9
        if size_gb > MAX_GB:
            raise WarmstartError(
                f"{folder} has {size_gb:.1f} GB of weights, more than the {MAX_GB:g} GB that "
                "import downloads: choose a smaller model"
            )
        licence = getattr(info.card_data, "license", None)
        source = HubSource(
            name=name,
            revision=info.sha or "",
            licence=licence if isinstance(licence, str) else None,
        )
        progress.say(f"downloading {source} ({size_gb * 1000:,.0f} MB)")
        for file, size in sorted(sizes.items()):
            fetch = partial(hub.hf_hub_download, name, file, revision=info.sha)
            path = _within(PATIENCE_S + size / LEAST_SPEED, folder, fetch)
    return Path(path).parent, source


def _within(seconds: float, folder: str, work: Callable[[], T]) -> T:
    """Return what work returns within a time; the library waits as long as bytes trickle in."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()  # a thread of a pool would be waited for at the end
    end = monotonic() + seconds
    while not future.done():
        if monotonic() > end:
            raise WarmstartError(
                f"{folder} did not arrive within {duration(seconds)}, at less than "
                f"{LEAST_SPEED / 1000:g} kB a second: try again later, or import a folder that was "
                "downloaded elsewhere"
            )
        wait([future], min(seconds, LOOK_S))  # Windows does not interrupt a longer wait
    return future.result()


def _wanted_files(folder: str, names: Sequence[str]) -> list[str]:
    """Return the files that `import` reads."""
    weights = [name for name in names if name.endswith(WEIGHTS)]
    if not weights:
        raise WarmstartError(
            f"{folder} has no safetensors weights, and warmstart reads no pickle: choose a model "
            "with a model.safetensors"
        )
    wanted = weights + [n for n in names if n.endswith(SMALL) and not n.endswith(WEIGHTS)]
    if len(wanted) > MOST_FILES:
        raise WarmstartError(
            f"{folder} has {len(wanted):,} files, more than the {MOST_FILES:,} that import "
            "downloads: choose another model"
        )
    return wanted


def _library() -> ModuleType:
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        raise WarmstartError(
            "hf: needs huggingface_hub, which is not installed: pip install huggingface_hub; or "
            "download the folder and import that"
        ) from None
    return huggingface_hub


@contextmanager
def _explain_failures(folder: str) -> Iterator[None]:
    """Turn what goes wrong between here and the hub into one sentence."""
    errors = _library().errors
    try:
        yield
    except errors.GatedRepoError:
        raise WarmstartError(
            f"{folder} asks for its terms to be accepted: do so on its page, then run `hf auth "
            "login` and import again"
        ) from None
    except errors.RevisionNotFoundError:
        raise WarmstartError(f"{folder}: the model exists, this revision of it does not") from None
    except errors.RepositoryNotFoundError:
        raise WarmstartError(
            f"{folder} is not on the hub, or is private: check OWNER/NAME, or run `hf auth login`"
        ) from None
    except WarmstartError:
        raise
    except Exception as error:  # the library's HTTP client, and so its errors, vary by version
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WarmstartError(
            f"{folder} could not be downloaded: {reason[:200]}; try again, or import a folder that "
            "was downloaded elsewhere"
        ) from None
