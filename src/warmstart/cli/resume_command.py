"""The command `verify-resume`: call the recipe, print the result."""

from rich.console import Console

from warmstart.cli.options import Command
from warmstart.cli.printing import new_table, print_json, say
from warmstart.errors import WarmstartError
from warmstart.settings.resuming import VerifyResumeConfig


def verify_resume(config: VerifyResumeConfig, as_json: bool) -> None:
    """Kill and resume a short run at random moments; check that the weights are equal."""
    from warmstart.recipes.verify_resume import verify_resume as run

    result = run(config)
    total = len(result.kills)
    if as_json:
        rows = [{**vars(kill), "is_identical": kill.is_identical} for kill in result.kills]
        print_json({"kills": rows, "identical": result.num_identical})
    else:
        table = new_table("killed while", "resumed from", "final weights")
        for kill in result.kills:
            verdict = "identical" if kill.is_identical else "different"
            table.add_row(kill.moment, f"{kill.unit} {kill.step}", verdict)
        Console().print(table)
        say(f"{result.num_identical}/{total} identical")
    if result.num_identical < total:
        differing = next(kill for kill in result.kills if not kill.is_identical)
        what = ", ".join(differing.differs) or "the first step"
        raise WarmstartError(f"a resumed run differs from an uninterrupted one in: {what}")


COMMANDS = (Command("verify-resume", "Train", verify_resume, "runs/base/config.json --kills 20"),)
