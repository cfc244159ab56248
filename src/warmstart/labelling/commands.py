"""The commands of labelling: call the verb, print the result."""

from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.errors import WarmstartError
from warmstart.formats import shell_line
from warmstart.jsonfiles import to_json
from warmstart.labelling.settings import ReviewConfig, SuggestConfig
from warmstart.printing import print_table, quote, say, say_next, write_lines
from warmstart.serving.commands import LABEL_FORMATS
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import format_of

if TYPE_CHECKING:
    from warmstart.labelling.suggest import Suggestions


def suggest(config: SuggestConfig, as_json: bool) -> None:
    from warmstart.labelling.suggest import suggest as run
    from warmstart.labelling.suggest import text_lines

    if as_json and config.out:
        raise WarmstartError(f"--json is for standard output; -o {config.out} has its own format")
    suggestions = run(config)
    if not config.out:
        json_lines = (to_json(text.values()) for text in suggestions)
        write_lines(json_lines if as_json else text_lines(suggestions), None)
        return
    say(suggestions.describe())
    filled = f"{quote(config.out)}: fill in the column '{config.label_column}'"
    if format_of(Path(config.out)) in LABEL_FORMATS:
        page = ["serve", config.run, "--label", config.out, *config.flags(TableFormat)]
        filled += f", or label on a page: warmstart {shell_line(page)}"
    say_next(filled, _next_command(config, suggestions))


def _next_command(config: SuggestConfig, suggestions: "Suggestions") -> str:
    """Return the command that trains with the new labels beside those there were."""
    words = ["--from", suggestions.start] if suggestions.start else []
    if not suggestions.is_transformer and not words:
        words = ["--unlabelled", config.file if config.file not in (None, "-") else "texts.txt"]
    for name in dict.fromkeys((*suggestions.trained_on, *config.labelled, str(config.out))):
        words += ["--train", name]
    line = shell_line([*words, *config.flags(TableFormat)])
    if suggestions.is_transformer:
        return f"finetune {line} -o runs/next"
    return f"compare {line} -o next"


def review(config: ReviewConfig, as_json: bool) -> None:
    from warmstart.labelling.review import review as run

    if as_json and config.out:
        raise WarmstartError(f"--json is for standard output; -o {config.out} has its own format")
    found = run(config)
    if not config.out:
        lines = (to_json(s.values()) if as_json else s.text_line() for s in found)
        write_lines(lines, None)
        return
    say(found.describe())
    if found.mixed:
        rows = [(pair.label, pair.suggested, f"{pair.num_texts:,}") for pair in found.mixed]
        print_table(("label", "probably", "texts"), rows, "labels that are mixed up most")
    say_next(f"{quote(config.out)}: read the texts, correct the labels that are wrong", None)
