"""Messages for the command line in the words of a Python program."""

import re
from collections.abc import Callable, Mapping

from warmstart.settings.base import Setting, Settings

_COLUMNS = re.compile(r"--columns ('[^']+'|[\w@%+=:,./-]*[\w@%+=/-])")  # the flag with its value
_FLAG = re.compile(  # perhaps with its value; or a command
    r"`[^`]*`|(?<![\w-])(--?[a-z][a-z-]*|[A-Z]{3,})(?![\w-])(?: ([\w.]*\w)(?![\w-]|,\w))?"
)
_NUMBER = re.compile(r"\d+(\.\d+)?")


def python_words(settings: type[Settings], titles: Mapping[str, str]) -> Callable[[str], str]:
    """Return the function that writes a message with keywords for flags, and tables for files."""
    known: dict[str | None, Setting] = {}
    for setting in settings.declared():
        known |= {setting.flag: setting, setting.short: setting}

    def keyword(match: re.Match[str]) -> str:
        if match[1] is None or match[1] not in known:
            return match[0]
        setting, value = known[match[1]], match[2] or ""
        if value in setting.choices:
            return f'{setting.name}="{value}"'
        if _NUMBER.fullmatch(value):
            return f"{setting.name}={value}"
        name = f"{setting.name}=True" if setting.value_type is bool else setting.name
        return match[0].replace(match[1], name, 1)

    def translate(message: str) -> str:
        for path, title in titles.items():
            message = message.replace(path, title)
        message = _COLUMNS.sub(lambda match: f'columns="{match[1].strip(chr(39))}"', message)
        return _FLAG.sub(keyword, message)

    return translate
