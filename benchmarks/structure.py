"""Measure the source itself: sizes, functions, repeated names, and the files a command passes.

Measures the package that Python finds; with PYTHONPATH=other/src, that of another checkout.
"""

import ast
import contextlib
import importlib
import io
import os
import pkgutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType

import warmstart
from warmstart.cli.main import main as run_command

ROOT = Path(warmstart.__file__).parent
MACHINE = "--threads 1 --precision fp32"
SHAPE = f"--width 16 --heads 2 --depth 1 --ffn-width 32 --vocab-size 300 --max-length 64 {MACHINE}"
PREPARED = (
    "samples -o data",
    "train-translator --source data/train.en --target data/train.fr --valid-source data/valid.en "
    f"--valid-target data/valid.fr --decoder-depth 1 {SHAPE} --steps 2 --samples 0 -o fr",
)
MEASURED = (
    f"pretrain data/unlabelled.txt --preset tiny {SHAPE} --steps 2 -o base",
    "compare --from base --train data/train.tsv --valid data/valid.tsv --labels 50 --epochs 1 "
    f"--seeds 0 --trials 1 {MACHINE} -o comparison",
    f"translate fr data/test.en -o test.fr {MACHINE}",
)


def main() -> None:
    """Print the measures."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}
    print_sizes(trees)
    print_functions(node for tree in trees.values() for node in ast.walk(tree))
    modules = [path.name for path in trees if path.name != "__init__.py"]
    classes = [node.name for tree in trees.values() for node in classes_of(tree)]
    print_shares(trees)
    print("repeated file names:", repeated(modules))
    print("repeated class names:", repeated(classes))
    print_files_passed()


def print_sizes(paths: Iterable[Path]) -> None:
    """Print lines and files by package."""
    lines, files = Counter[str](), Counter[str]()
    for path in paths:
        package = path.relative_to(ROOT).parts[0] if path.parent != ROOT else "(top)"
        lines[package] += path.read_text(encoding="utf-8").count("\n")
        files[package] += 1
    for package in sorted(lines):
        print(f"{package:14}{lines[package]:7,} lines{files[package]:5} files")
    print(f"{'all':14}{lines.total():7,} lines{files.total():5} files")


def print_shares(trees: Mapping[Path, ast.Module]) -> None:
    """Print classes per 1,000 lines and the share of lines that import."""
    num_lines = sum(path.read_text(encoding="utf-8").count("\n") for path in trees)
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    num_classes = sum(isinstance(node, ast.ClassDef) for node in nodes)
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    num_imports = sum((node.end_lineno or 0) - node.lineno + 1 for node in imports)
    print(f"{num_lines / len(trees):.0f} lines a file")
    print(f"{num_classes} classes, {1000 * num_classes / num_lines:.1f} per 1,000 lines")
    print(f"{num_imports / num_lines:.1%} of the lines are imports")


def print_functions(nodes: Iterable[ast.AST]) -> None:
    """Print quantiles of the lines of a function."""
    kinds = ast.FunctionDef, ast.AsyncFunctionDef
    sizes = sorted(
        (node.end_lineno or 0) - node.lineno + 1 for node in nodes if isinstance(node, kinds)
    )
    p50, p90 = (sizes[int(share * len(sizes))] for share in (0.5, 0.9))
    print(f"{len(sizes):,} functions: p50 {p50}, p90 {p90}, longest {sizes[-1]} lines")


def classes_of(tree: ast.AST) -> Iterator[ast.ClassDef]:
    """Yield the classes that a module declares."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def repeated(names: Iterable[str]) -> str:
    """Return the names that occur more than once."""
    return ", ".join(sorted(name for name, num in Counter(names).items() if num > 1)) or "none"


def print_files_passed() -> None:
    """Print how many files have a function that a small command calls; imports do not count."""
    for module in pkgutil.walk_packages([str(ROOT)], "warmstart."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):  # Triton is there with CUDA only
                importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for command in PREPARED:
            files_passed(command)
        for command in MEASURED:
            print(f"{command.split()[0]} passes through {len(files_passed(command))} files")


def files_passed(command: str) -> set[str]:
    """Run a command; return the files of the functions that were called."""
    passed = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & 1  # not the body of a module or class
        if event == "call" and is_function and code.co_filename.startswith(f"{ROOT}{os.sep}"):
            passed.add(code.co_filename)

    sys.argv = ["warmstart", *command.split()]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            run_command()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(said.getvalue()) from end
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return passed


if __name__ == "__main__":
    main()
