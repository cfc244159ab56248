"""Calls that a type checker must accept; `make check` reads this file, and nothing runs it."""

import polars as pl

import warmstart

frame = pl.DataFrame({"text": ["a"], "label": ["b"]})
columns = {"text": ["a"], "label": ["b"]}
records = [{"text": "a", "label": "b"}]
warmstart.pretrain(files=["a.txt"], out="base", columns={"text": "a"})
warmstart.finetune(train=frame, valid=records, out="run", epochs=2).model.predict(frame["text"])
warmstart.compare(train=[frame, frame], test=columns, from_runs="base", out="c", labels="9,all")
warmstart.predict(run="run", file=["a", None]).to_pandas()
warmstart.suggest(run="run", file="texts.csv", labelled=frame).to_arrow()
warmstart.Classifier("base", epochs=2).fit(frame["text"], frame["label"]).predict(["a"])
