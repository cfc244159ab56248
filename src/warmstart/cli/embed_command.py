"""The command `embed`: call the recipe, print vectors or a comparison of a word's vectors."""

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from warmstart.cli.options import Command
from warmstart.cli.printing import new_table, print_json, say, write_lines
from warmstart.formats import counted
from warmstart.settings.using import EmbedConfig

if TYPE_CHECKING:
    from warmstart.results.word_similarity import WordSimilarity


def embed(config: EmbedConfig, as_json: bool) -> None:
    """Turn texts into vectors, or compare one word's vectors between texts."""
    from warmstart.recipes.embed import embed as run
    from warmstart.recipes.embed import embed_lines

    if config.word is None and config.out is None:
        write_lines(embed_lines(config, sys.stdin.buffer), None)
        return
    result = run(config, sys.stdin.buffer)
    if result.word is None:
        vectors = f"{counted(result.num_vectors, 'vector')} of {result.width:,} numbers"
        texts = counted(result.num_texts, "text")
        facts = {"texts": result.num_texts, "vectors": result.num_vectors, "width": result.width}
        if as_json:
            print_json({"out": str(result.out), **facts, "truncated": result.num_truncated})
        else:
            say(f"wrote {result.out}: {vectors}, {texts}")
        return
    if as_json:
        print_json(result.word.to_json())
        return
    _print_word(result.word)
    if result.out:
        say(f"wrote {result.out}")


def _print_word(report: "WordSimilarity") -> None:
    from warmstart.report.word_figure import table_headers, table_rows

    for number, sentence in enumerate(report.sentences, 1):
        start, end = report.spans[number - 1]
        marked = f"{escape(sentence[:start])}[bold]{escape(sentence[start:end])}[/]"
        Console().print(f"{number}  {marked}{escape(sentence[end:])}", highlight=False)
    table = new_table(*table_headers(report))
    table.title = "cosine similarity between the sentences; layer 0: embeddings"
    for row in table_rows(report):
        table.add_row(*row)
    Console().print(table)
    say(report.sentence)


COMMANDS = (Command("embed", "Use", embed, "runs/base texts.txt --pooling mean -o vectors.npy"),)
