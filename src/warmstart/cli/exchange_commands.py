"""The commands `import` and `export`: call the recipe, print the result."""

from warmstart.cli.options import Command
from warmstart.cli.printing import quoted, say, say_next
from warmstart.settings.exchanging import ExportConfig, ImportConfig


def import_model(config: ImportConfig) -> None:
    """Turn a Hugging Face folder into a run for every other command."""
    from warmstart.recipes.import_model import import_model as run

    result = run(config)
    say(f"{result.architecture}: {result.kind}, {result.parameters:,} parameters")
    if result.left_out:
        say(f"not imported, because {result.kind} does not use it: {', '.join(result.left_out)}")
    files = "--train train.tsv --valid valid.tsv"
    say_next(result.run, f"compare --from {quoted(result.run)} {files} -o comparison")


def export_model(config: ExportConfig) -> None:
    """Write a run for another library and check that its outputs agree."""
    from warmstart.recipes.export_model import export_model as run

    result = run(config)
    say(f"{result.architecture}, {result.num_parameters:,} parameters")
    if result.check:
        say(f"checked with {result.check.summary}")
    else:
        say("not checked: transformers is not installed; pip install transformers")
    again = f"import {quoted(result.folder)} -o runs/again" if config.to == "hf" else None
    say_next(result.folder, again)


COMMANDS = (
    Command("import", import_model, "bert-base-uncased -o runs/bert"),
    Command("export", export_model, "runs/warm --to hf -o exported"),
)
