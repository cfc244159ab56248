"""Download a public model from the Hugging Face hub: weights as safetensors, never a pickle."""

import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.interop.formats import quiet
from warmstart.runs.facts import HubSource

PREFIX = "hf:"
WEIGHTS = (".safetensors", ".safetensors.index.json")
SMALL = (".json", ".txt", ".model", ".spm")  # settings and vocabularies
_COMMIT = re.compile("[0-9a-f]{40,64}")
MOST_FILES = 1_000
MAX_GB = 8.0  # of all files together: more than any model that fits a small machine


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
        info = hub.model_info(name, revision=revision or None, files_metadata=True)
        files = [file for file in info.siblings or () if "/" not in file.rfilename]
        wanted = set(_wanted_files(folder, [file.rfilename for file in files]))
        sizes = [
            -1 if file.size is None else file.size for file in files if file.rfilename in wanted
        ]
        if not _COMMIT.fullmatch(info.sha or "") or min(sizes) < 0:  # it names a folder here
            raise WarmstartError(f"{folder}: the hub gives no commit, or no size of a file")
        size_gb = sum(sizes) / 1e9
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
        patterns = sorted(map(glob.escape, wanted))
        path = hub.snapshot_download(name, revision=info.sha, allow_patterns=patterns)
    return Path(path), source


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
