"""Messages for the command line in the words of a Python program."""

import re
from collections.abc import Callable, Mapping

from warmstart.settings.base import Settings

_COLUMNS = re.compile(r"--columns ('[^']+'|[\w@%+=:,./-]*[\w@%+=/-])")  # the flag with its value
_FLAG = re.compile(r"`[^`]*`|(?<![\w-])(--?[a-z][a-z-]*|[A-Z]{3,})(?![\w-])")  # or a command


def python_words(settings: type[Settings], titles: Mapping[str, str]) -> Callable[[str], str]:
    """Return the function that writes a message with keywords for flags, and tables for files."""
    names: dict[str | None, str] = {}
    for setting in settings.declared():
        name = f"{setting.name}=True" if setting.value_type is bool else setting.name
        names |= {setting.flag: name, setting.short: name}

    def translate(message: str) -> str:
        for path, title in titles.items():
            message = message.replace(path, title)
        message = _COLUMNS.sub(lambda match: f'columns="{match[1].strip(chr(39))}"', message)
        return _FLAG.sub(lambda match: names.get(match[0], match[0]), message)

    return translate
