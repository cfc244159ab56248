"""Translate lines of text with an exported translator: pip install onnxruntime tokenizers numpy.

warmstart export runs/en-de --to onnx -o en-de-onnx
python examples/onnx_translate.py en-de-onnx < sentences.txt
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
encoder = onnxruntime.InferenceSession(folder / "encoder_model.onnx")
decoder = onnxruntime.InferenceSession(folder / "decoder_model.onnx")
source = Tokenizer.from_file(str(folder / "tokenizer.json"))
source.enable_truncation(config["max_length"])
target_file = folder / "target" / "tokenizer.json"
target = Tokenizer.from_file(str(target_file)) if target_file.exists() else source
heads, width = config["num_attention_heads"], config["hidden_size"]


def run(session, inputs):
    """Return the outputs by name, and the caches among them as inputs of the next step."""
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, inputs), strict=True))
    caches = {n.replace("present", "past_key_values"): outputs[n] for n in names if "present" in n}
    return outputs, caches


def translate(text):
    """Return the most probable tokens, one after the other."""
    ids = np.array([source.encode(text).ids])
    mask = np.ones_like(ids)
    _, of_source = run(encoder, {"input_ids": ids, "attention_mask": mask})
    nothing = np.zeros((1, heads, 0, width // heads), np.float32)
    past = {name.replace("encoder", "decoder"): nothing for name in of_source}
    written = [config["bos_token_id"]]
    for _ in range(min(config["max_length"] - 1, 2 * ids.size + 10)):
        step = {"input_ids": np.array([written[-1:]]), "encoder_attention_mask": mask}
        outputs, past = run(decoder, {**step, **of_source, **past})
        logits = outputs["logits"][0, -1]
        logits[config["suppress_tokens"]] = -np.inf
        written.append(int(logits.argmax()))
        if written[-1] == config["eos_token_id"]:
            break
    return target.decode(written)


for line in sys.stdin.read().splitlines():
    print(translate(line))
