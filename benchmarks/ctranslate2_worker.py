"""CTranslate2 as a contender of `translation.py`: without PyTorch, whose threads would disturb it.

python benchmarks/ctranslate2_worker.py FOLDER float32 THREADS SOURCES.json
"""

import json
import sys
import time

import ctranslate2

LENGTH = 20  # tokens of every translation


def main() -> None:
    """Translate as often as a line of standard input asks; answer with sentences a second."""
    folder, compute_type, threads, file = sys.argv[1:]
    with open(file, encoding="utf-8") as opened:
        sources = [[str(index) for index in source] for source in json.load(opened)]
    translator = ctranslate2.Translator(
        folder, compute_type=compute_type, intra_threads=int(threads)
    )
    lengths = {"min_decoding_length": LENGTH, "max_decoding_length": LENGTH}
    for line in sys.stdin:
        first, last, size, width = json.loads(line)
        began = time.perf_counter()
        for start in range(first, last, size):
            batch = sources[start : min(start + size, last)]
            found = translator.translate_batch(batch, beam_size=width, **lengths)
            assert all(len(each.hypotheses[0]) == LENGTH for each in found)
        print((last - first) / (time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    main()
