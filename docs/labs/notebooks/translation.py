# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab 2: the Transformer for translation
#
# The ten questions of the lab as cells to run. Its pages ([attention](../attention.md),
# [translation](../translation.md), [what it costs](../cost.md)) have the formulas, the usual
# mistakes and the solutions; here you predict, run, and look.

# %% [markdown]
# On Colab or Kaggle, first upload the wheel of warmstart beside this notebook.

# %%
import glob
import importlib.util
import subprocess
import sys

if not importlib.util.find_spec("warmstart"):
    package = [*glob.glob("warmstart-*.whl"), "warmstart"][0]
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", package])

# %%
import os
import sys
from pathlib import Path

import torch

import warmstart

if Path.cwd().name != "lab":  # run this cell as often as you like
    Path("lab").mkdir(exist_ok=True)
    os.chdir("lab")

# %% [markdown]
# More steps make a better translator. With these values the notebook takes about three minutes on
# a laptop. Everything is written to `lab/` beside this notebook, as in lab 1.

# %% tags=["parameters"]
STEPS = 150
SECONDS = 40
LENGTHS = (256, 1024, 4096)

# %%
if not Path("samples").exists():
    warmstart.make_samples(out="samples")

# %%
warmstart.train_translator(
    source="samples/train.en",
    target="samples/train.fr",
    valid_source="samples/valid.en",
    valid_target="samples/valid.fr",
    preset="tiny",
    steps=STEPS,
    learning_rate=0.01,
    out="runs/en-fr",
    resume=True,
)

# %% [markdown]
# ## 1. What are queries, keys and values?
#
# Each position asks a question (query); each position offers a name tag (key) and a content
# (value). First all heads of the encoder, then one query of one head, neuron by neuron: its
# products with a key sum to a score.

# %%
SENTENCE = "My aunt gave me this trilogy for my birthday."
warmstart.look_attention(
    run="runs/en-fr", source=SENTENCE, part="encoder", words=True, out="encoder.png"
)

# %%
warmstart.look_neurons(run="runs/en-fr", text=SENTENCE, layer=1, head=1, out="neurons.png")

# %% [markdown]
# ## 2. Why is the product divided by √d_k?
#
# A score is a sum of d_k products. **Predict first:** if each has variance 1, what is the variance
# of the sum? The table has d_k, the variance, and the mean of the largest of ten
# weights, without and with the division.

# %%
for d_k in (4, 16, 64, 256):
    torch.manual_seed(0)
    q, k = torch.randn(2000, 1, d_k), torch.randn(2000, 10, d_k)
    scores = (q * k).sum(-1)  # (2000, 10)
    raw, scaled = scores.softmax(-1), (scores / d_k**0.5).softmax(-1)
    largest = (weights.max(-1)[0].mean() for weights in (raw, scaled))
    print(d_k, *(f"{number:.2f}" for number in (scores.var(), *largest)))

# %% [markdown]
# ## 3. Why several heads?
#
# One softmax gives one mean; several heads look in several places. On this page, choose a layer
# and a head, and point at a word.

# %%
warmstart.look_attention(run="runs/en-fr", source=SENTENCE, out="heads.html")

# %% [markdown]
# ## 4. How is a block built?
#
# Attention, then a feed-forward layer; each adds to its input, and a norm keeps the numbers in one
# range. **Predict first:** how many parameters does pre-norm add to `lab`, which has post-norm?

# %%
warmstart.count_parameters(model="lab", norm_position="pre")

# %% [markdown]
# ## 5. Encoder, decoder, cross-attention: who sees what?

# %%
warmstart.look_mask(
    model="vaswani-base", source=["a man sleeps"], target=["ein Mann schläft"], out="masks.png"
)

# %% [markdown]
# ## 6. How is a sentence predicted?
#
# The most probable token at each step need not begin the most probable sentence, so a beam keeps
# several beginnings. Blue paths have ended, grey ones were dropped, the thick one is the answer.

# %%
warmstart.look_beam(
    run="runs/en-fr", source="I will say it plainly: it is a scam.", beam=3, out="beam.png"
)

# %%
model = warmstart.load("runs/en-fr")
for width in (1, 3):
    ((best,),) = model.translate(["My aunt gave me this trilogy for my birthday."], beam=width)
    print(f"beam {width}: {best.text} ({best.score:.3f})")

# %% [markdown]
# ## 7. What is a contextual embedding?
#
# In the table of embeddings a word has one vector. Each block mixes in what surrounds it.

# %%
Path("sentences.txt").write_text(
    "The story is not boring at all.\nThe plot is boring and the style is weak.\nA boring book.\n"
    "I was never bored: not a boring page.\n",
    encoding="utf-8",
)
warmstart.look_word(run="runs/en-fr", word="boring", file="sentences.txt")

# %% [markdown]
# The same with the masked model of lab 1, if its notebook has trained one.

# %%
RUN = "runs/masked" if Path("runs/masked").exists() else "runs/en-fr"
warmstart.look_word(run=RUN, word="boring", file="sentences.txt")

# %% [markdown]
# ## 8. What does length cost?
#
# n²d for attention, nd² for recurrence, knd² for convolution. **Predict first:** which lines have
# slope 2? Then let the width vary instead: `widths=(64, 128, 256)` in place of the lengths.

# %%
warmstart.look_complexity(lengths=LENGTHS, widths=(64,), seconds=SECONDS, out="growth.png")

# %% [markdown]
# ## 9. Do 65 million parameters fit on my GPU?
#
# Weights, gradients and the optimizer's averages depend on the parameters; activations on the
# tokens of a pass. A card of 8 GB is `rtx-4060`; `--on list` names all.

# %%
# !{sys.executable} -m warmstart plan vaswani-base --on rtx-4090 --batch-tokens 50000

# %% [markdown]
# ## 10. What if it crashes in the middle?
#
# A short run is killed at a random moment, resumed, and compared with one that was never killed.

# %%
warmstart.verify_resume(kills=1)
