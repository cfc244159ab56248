"""What a vocabulary calls its special tokens: the roles, the usual names, and a file of them.

Knows nothing about ids or libraries.
"""

from collections.abc import Callable, Mapping
from typing import Any

from warmstart.errors import WarmstartError

FILE_NAME = "special_tokens_map.json"

# Usual names, the likeliest first; the first is also the name of one that has to be added.
USUAL = {
    "bos": ("<s>", "[CLS]", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("</s>", "[SEP]", "<|end_of_text|>", "<eos>", "<|endoftext|>"),
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|finetune_right_pad_id|>"),
    "unk": ("<unk>", "[UNK]"),
    "mask": ("<mask>", "[MASK]"),
}
# A text begins with `cls` and ends with `sep` where a vocabulary tells them from bos and eos.
_KEYS = {
    "bos": ("cls_token", "bos_token"),
    "eos": ("sep_token", "eos_token"),
    "pad": ("pad_token",),
    "unk": ("unk_token",),
    "mask": ("mask_token",),
}


def parse_names(entries: Mapping[str, Any], file: object) -> dict[str, str]:
    """Return the name of every role that a file's entries give: a name, or an object with one."""
    names = {}
    for role, keys in _KEYS.items():
        for key in keys:
            entry = entries.get(key)
            name = entry.get("content") if isinstance(entry, dict) else entry
            if name is None:
                continue
            if not isinstance(name, str) or not name:
                raise WarmstartError(f"{file}: {key} must be a token, not {str(entry)[:40]!r}")
            names[role] = name
            break
    return names


def to_entries(names: Mapping[str, str]) -> dict[str, str]:
    """Return names as `parse_names` reads them."""
    return {f"{role}_token": name for role, name in names.items()}


def find_usual(role: str, has_token: Callable[[str], bool]) -> str | None:
    """Return the usual name of a role that a vocabulary has."""
    return next((name for name in USUAL[role] if has_token(name)), None)
