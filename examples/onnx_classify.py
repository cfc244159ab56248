"""Label lines of text with an exported classifier: pip install onnxruntime tokenizers numpy.

warmstart export runs/labels --to onnx -o labels-onnx
python examples/onnx_classify.py labels-onnx < texts.txt
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.enable_truncation(config["max_length"])
tokenizer.enable_padding(pad_id=config["pad_token_id"])
session = onnxruntime.InferenceSession(folder / "model.onnx")

texts = sys.stdin.read().splitlines()
rows = tokenizer.encode_batch(texts)
inputs = {
    "input_ids": np.array([row.ids for row in rows]),
    "attention_mask": np.array([row.attention_mask for row in rows]),
    "token_type_ids": np.array([row.type_ids for row in rows]),
}
names = [given.name for given in session.get_inputs()]
(logits,) = session.run(["logits"], {name: inputs[name] for name in names})
for text, label in zip(texts, logits.argmax(1), strict=True):
    print(config["id2label"][str(label)], text, sep="\t")
