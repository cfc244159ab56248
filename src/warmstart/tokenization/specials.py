"""Names of special tokens: their roles, their usual names, and the file that lists them."""

from collections.abc import Callable, Mapping
from typing import Any

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import show

FILE_NAME = "special_tokens_map.json"
START_KEY = "add_bos_token"

# The likeliest name comes first; it is also the name of a token that has to be added.
USUAL = {
    "bos": ("<s>", "[CLS]", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("</s>", "[SEP]", "<|end_of_text|>", "<eos>", "<|endoftext|>"),
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|finetune_right_pad_id|>"),
    "unk": ("<unk>", "[UNK]"),
    "mask": ("<mask>", "[MASK]"),
}
# `cls` and `sep` take precedence over bos and eos where a vocabulary has both.
_KEYS = {
    "bos": ("cls_token", "bos_token"),
    "eos": ("sep_token", "eos_token"),
    "pad": ("pad_token",),
    "unk": ("unk_token",),
    "mask": ("mask_token",),
}


def parse_names(entries: Mapping[str, Any], file: object) -> dict[str, str]:
    """Return the names by role; an entry is a name or an object that contains one."""
    names = {}
    for role, keys in _KEYS.items():
        for key in keys:
            entry = entries.get(key)
            name = entry.get("content") if isinstance(entry, dict) else entry
            if name is None:
                continue
            if not isinstance(name, str) or not name:
                raise WarmstartError(f"{file}: {key}={show(entry)} must be a token")
            names[role] = name
            break
    return names


def parse_start(entries: Mapping[str, Any]) -> bool:
    """Tell whether a token begins what a model reads."""
    return entries.get(START_KEY) is not False


def to_entries(names: Mapping[str, str], has_start: bool) -> dict[str, str | bool]:
    """Return names in the form that `parse_names` and `parse_start` read."""
    entries: dict[str, str | bool] = {f"{role}_token": name for role, name in names.items()}
    return entries if has_start else {**entries, START_KEY: False}


def find_usual(role: str, has_token: Callable[[str], bool]) -> str | None:
    """Return the first usual name of a role that a vocabulary has."""
    return next((name for name in USUAL[role] if has_token(name)), None)
