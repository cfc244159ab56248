"""Preparing a corpus: rate against the tokenizers library alone, and peak memory by size of text.

Text is made up of sentences of the samples, in a new order. Each size is prepared in processes of
its own. Rates are per second of CPU time, which other work on the machine changes little; the last
lines say whether finished shards were used again after a kill in the middle, and the result is
the same.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from warmstart.data.corpus import source_of
from warmstart.data.prepare import prepare, workers_of
from warmstart.data.shards import ShardWriter
from warmstart.recipes.prepare_files import make_tokenizer
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.using import TokenizerConfig
from warmstart.tokenization.backends import load_tokenizer, parse_json


def main() -> None:
    """Prepare texts of several sizes and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, nargs="+", default=[50, 500], help="sizes of text")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=("library", "ours"), help=argparse.SUPPRESS)
    parser.add_argument("--text", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        tokenizer = given.text.parent / "tokenizer"
        measure = encode_alone if given.only == "library" else prepare_text
        print(json.dumps(measure(given.text, tokenizer, given.processes)))
        return
    with tempfile.TemporaryDirectory(prefix="warmstart-preparation-") as made:
        texts = [write_text(Path(made), size) for size in given.mb]
        config = TokenizerConfig(files=(str(texts[0]),), out=f"{made}/tokenizer", sample_mb=5)
        make_tokenizer(config)
        library = measured("library", texts[0], given.processes)
        print(f"tokenizers' encode_batch: {library['mb_per_cpu_s']:.2f} MB per CPU second")
        for text in texts:
            ours = measured("ours", text, given.processes)
            print(
                f"{text.stem}: {ours['mb_per_cpu_s']:.2f} MB per CPU second "
                f"({ours['mb_per_cpu_s'] / library['mb_per_cpu_s']:.2f} of encode_batch), "
                f"{ours['elapsed_s']:.0f} s; peak {ours['peak_mb']:.0f} MB, "
                f"{ours['worker_mb']:.0f} MB in the largest of {given.processes} processes",
                flush=True,
            )
        kill_and_repeat(texts[0], given.processes)


def write_text(folder: Path, num_mb: int) -> Path:
    """Write so much text, a document on each line."""
    rng, path = random.Random(num_mb), folder / f"{num_mb}-MB.txt"
    samples = write_samples(folder / "samples", sizes=SampleSizes(unlabelled=4_000))
    sentences = samples.unlabelled.read_text().replace("\n", " ").split(". ")
    shutil.rmtree(folder / "samples")
    with path.open("w") as file:
        while file.tell() < num_mb * 1_000_000:
            for _ in range(1_000):
                file.write(". ".join(rng.choices(sentences, k=rng.randrange(2, 20))) + ".\n")
    return path


def measured(only: str, text: Path, num_processes: int) -> dict[str, float]:
    """Return what a process of its own measured."""
    result: dict[str, float] = json.loads(
        subprocess.check_output(_command(only, text, num_processes))
    )
    return result


def _command(only: str, text: Path, num_processes: int) -> list[str]:
    words = ["--only", only, "--text", str(text), "--processes", str(num_processes)]
    return [sys.executable, __file__, *words]


def encode_alone(text: Path, tokenizer: Path, _: int) -> dict[str, float]:
    """Encode the text by the library, in batches of about a megabyte."""
    library = parse_json((tokenizer / "tokenizer.json").read_bytes())
    lines, size = text.read_text().splitlines()[:20_000], 0
    began = time.process_time()
    for start in range(0, len(lines), 1_000):
        batch = lines[start : start + 1_000]
        size += sum(map(len, batch))
        library.encode_batch(batch, add_special_tokens=False)
    return {"mb_per_cpu_s": size / 1e6 / (time.process_time() - began)}


def prepare_text(text: Path, tokenizer: Path, num_processes: int) -> dict[str, float]:
    """Prepare the text; return rate and memory, in the folder beside it."""
    began, writer = time.monotonic(), ShardWriter(load_tokenizer(tokenizer))
    with workers_of(None, num_processes) as workers:
        prepare(source_of([str(text)], "line"), None, writer, text.parent / "cache", workers)
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_s = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    return {
        "mb_per_cpu_s": text.stat().st_size / 1e6 / cpu_s,
        "elapsed_s": time.monotonic() - began,
        "peak_mb": own.ru_maxrss / 1024,
        "worker_mb": others.ru_maxrss / 1024,
    }


def kill_and_repeat(text: Path, num_processes: int) -> None:
    """Kill a preparation once it has a finished shard, repeat it, and compare."""
    shards, cache = text.parent / "shards", text.parent / "cache"
    shutil.rmtree(shards)
    measured("ours", text, num_processes)
    expected = checksum(cache)
    shutil.rmtree(shards)
    process = subprocess.Popen(_command("ours", text, num_processes), stdout=subprocess.DEVNULL)
    while not finished(shards) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = finished(shards)
    again = measured("ours", text, num_processes)
    after = finished(shards)
    num_kept = sum(before[name] == after.get(name) for name in before)
    is_same = checksum(cache) == expected
    print(f"killed with {len(before)} of {len(after)} shards finished; {num_kept} were used again")
    print(f"the result is {'the same' if is_same else 'ANOTHER'}; ", end="")
    repeated = measured("ours", text, num_processes)
    print(f"with {len(before)} shards it took {again['elapsed_s']:.0f} s, ", end="")
    print(f"with all {repeated['elapsed_s']:.0f} s")


def finished(shards: Path) -> dict[str, int]:
    """Return when each finished shard was written."""
    folders = [path for path in shards.glob("[!.]*") if path.is_dir()]
    return {path.name: path.stat().st_mtime_ns for path in folders}


def checksum(cache: Path) -> str:
    """Return a checksum of all files in a folder."""
    files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(cache.iterdir())]
    return " ".join(files)


if __name__ == "__main__":
    main()
