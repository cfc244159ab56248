"""A process that writes shards for another one: `python -m warmstart.data.shard_worker`.

Requests and answers are lines of JSON.
"""

import json
import os
import sys
import time
from pathlib import Path
from threading import Thread

from warmstart.data.shards import ShardWriter, from_request
from warmstart.errors import WarmstartError
from warmstart.tokenization.loading import load_tokenizer

POLL_S = 0.5


def main(parent: str, tokenizer: str, held_out: str, has_index: str) -> None:
    """Write every shard that is asked for, until there are no more requests."""
    Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    writer = ShardWriter(load_tokenizer(Path(tokenizer)), float(held_out), has_index == "True")
    for line in sys.stdin:
        answer: dict[str, object] = {}
        try:
            writer.write(*from_request(json.loads(line)))
        except WarmstartError as fault:
            answer["error"] = str(fault)
        except OSError as fault:  # a full disk, say
            answer["errno"] = fault.errno
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _end_with(parent: int) -> None:
    """End at once when the process that sends requests is gone."""
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
