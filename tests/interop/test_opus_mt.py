"""Marian folders as OPUS-MT publishes them: two SentencePiece models over one vocabulary."""

import json
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto

import warmstart
from hub_folders import write_json
from warmstart.errors import WarmstartError
from warmstart.model.models import Translator
from warmstart.runs.saved import read_run

pytestmark = pytest.mark.slow

transformers = pytest.importorskip("transformers")

NUM_SENTENCES = 50
SPECIALS = {"<unk>", "<s>", "</s>"}


def train_pieces(file: Path, out: Path) -> list[str]:
    """Train a SentencePiece model on a file of lines, and return its pieces."""
    stream = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(file.read_text(encoding="utf-8").splitlines()[:500]),
        model_writer=stream,
        vocab_size=150,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    out.write_bytes(stream.getvalue())
    model = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    return [model.id_to_piece(index) for index in range(len(model))]


def build_marian(vocab_size: int) -> Any:
    """Return a small random Marian with the settings of OPUS-MT."""
    stacks = ("encoder", "decoder")
    sizes = {f"{stack}_{name}": 2 for stack in stacks for name in ("layers", "attention_heads")}
    sizes |= {f"{stack}_ffn_dim": 64 for stack in stacks}
    pad = vocab_size - 1
    ids = {"pad_token_id": pad, "decoder_start_token_id": pad, "bos_token_id": 0}
    ids |= {"eos_token_id": 0, "forced_eos_token_id": 0, "vocab_size": vocab_size}
    torch.manual_seed(1)
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            d_model=32,
            activation_function="swish",
            scale_embedding=True,
            max_position_embeddings=512,
            dropout=0.0,
            **sizes,
            **ids,
        )
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".layers." in name and "norm" not in name:
                parameter.normal_()  # else it repeats one word
        model.model.shared.weight.normal_(std=0.3)
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] = 5.0  # sentences end early
        model.final_logits_bias[0, 1] = -100.0  # <unk>, which our models never write
    return model


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    warmstart.make_samples(out=folder / "world")
    return folder / "world"


@pytest.fixture(scope="module")
def opus(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opus-mt-en-fr")
    pieces = train_pieces(samples / "train.en", folder / "source.spm")
    pieces += train_pieces(samples / "train.fr", folder / "target.spm")
    names = ["</s>", "<unk>", *sorted(set(pieces) - SPECIALS), "<pad>"]
    write_json(folder / "vocab.json", {name: index for index, name in enumerate(names)})
    write_json(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "fr"})
    build_marian(len(names)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def run(opus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "run"
    warmstart.import_model(folder=opus, out=out)
    return out


@pytest.fixture(scope="module")
def sentences(samples: Path) -> list[str]:
    lines = (samples / "test.en").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= NUM_SENTENCES
    return lines[:NUM_SENTENCES]


def test_both_sides_are_split_alike(opus: Path, run: Path, samples: Path) -> None:
    theirs = transformers.MarianTokenizer.from_pretrained(opus)
    ours = read_run(run).tokenizers
    assert not ours.is_joint
    english = (samples / "test.en").read_text(encoding="utf-8").splitlines()[:200]
    french = (samples / "test.fr").read_text(encoding="utf-8").splitlines()[:200]
    english += ["Zq 漢字, two  spaces", "<pad></s>"]
    for sentence, ids in zip(english[:-1], ours.source.encode(english[:-1]), strict=True):
        assert [*ours.source.start, *ids, ours.source.eos] == theirs(sentence)["input_ids"]
    for sentence, ids in zip(french, ours.target.encode(french), strict=True):
        assert [*ids, ours.target.eos] == theirs(text_target=sentence)["input_ids"]
        assert ours.target.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    (forged,) = ours.source.encode(english[-1:])
    assert not {ours.source.eos, ours.source.pad} & set(forged)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_the_same_texts(
    opus: Path, run: Path, sentences: list[str], beam: int
) -> None:
    tokenizer = transformers.MarianTokenizer.from_pretrained(opus)
    model = transformers.MarianMTModel.from_pretrained(opus).eval()
    wanted = list[str | None]()
    for sentence in sentences:
        inputs = tokenizer([sentence], return_tensors="pt")
        limit = inputs["input_ids"].shape[1] // 2 + 10
        (ids,) = model.generate(
            **inputs,
            num_beams=beam,
            length_penalty=0.0 if beam > 1 else None,
            early_stopping=beam > 1,
            bad_words_ids=[[tokenizer.pad_token_id]],
            max_length=limit + 2,  # with the first token and the last
        )
        is_cut = beam > 1 and len(ids) == limit + 2  # at no cost in transformers, but in ours
        wanted.append(None if is_cut else tokenizer.decode(ids, skip_special_tokens=True))
    translate = warmstart.load(run, threads=1).translate
    best = translate(sentences, beam=beam, length_penalty=0.0, max_ratio=0.5)
    found = [own[0].text for own in best]
    assert [a for a, b in zip(found, wanted, strict=True) if b is not None] == [
        b for b in wanted if b is not None
    ]
    assert len(set(wanted)) > 15  # the model neither stops at once nor repeats itself


def test_logits_are_the_same(opus: Path, run: Path, sentences: list[str]) -> None:
    tokenizer = transformers.MarianTokenizer.from_pretrained(opus)
    theirs = transformers.MarianMTModel.from_pretrained(opus, dtype=torch.float64).eval()
    source = read_run(run)
    ours = Translator(source.model).eval().double()
    ours.load_state_dict(source.weights)
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    target = torch.randint(2, source.model.vocab_size - 1, (len(sentences), 7))
    is_token = batch["attention_mask"].bool()
    with torch.inference_mode():
        wanted = theirs(**batch, decoder_input_ids=target).logits
        found = ours(batch["input_ids"], is_token, target)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_it_trains_on(run: Path, samples: Path, tmp_path: Path) -> None:
    sides = {"source": "train.en", "target": "train.fr"}
    sides |= {"valid_source": "valid.en", "valid_target": "valid.fr"}
    for name, file in sides.items():
        lines = (samples / file).read_text(encoding="utf-8").splitlines()[:20]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = {name: str(tmp_path / name) for name in sides}
    settings: dict[str, Any] = {"from_run": str(run), "steps": 2, "threads": 1, "samples": 0}
    warmstart.train_translator(out=str(tmp_path / "tuned"), **settings, **files)
    before, after = read_run(run).tokenizers, read_run(tmp_path / "tuned").tokenizers
    for side in ("source", "target"):
        assert getattr(after, side).fingerprint() == getattr(before, side).fingerprint()
        assert not getattr(after, side).start


def test_pictures_have_no_token_before_the_source(run: Path, tmp_path: Path) -> None:
    sides = {"source": ("the book",), "target": ("le livre",)}
    result = warmstart.look_mask(model=run, out=tmp_path / "mask.svg", **sides)
    encoder, decoder, _ = result.masks
    assert encoder.queries[0] != "<pad>"
    assert (encoder.queries[-1], decoder.queries[0]) == ("</s>", "<pad>")


@pytest.mark.parametrize("to", ["hf", "onnx", "ctranslate2"])
def test_exports_are_refused(run: Path, tmp_path: Path, to: str) -> None:
    with pytest.raises(WarmstartError, match="with unused pieces is not converted"):
        warmstart.export_model(run=run, to=to, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def edit(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    values = json.loads(file.read_text(encoding="utf-8"))
    change(values)
    write_json(file, values)


def rename(values: dict[str, Any], old: str, new: str) -> None:
    values[new] = values.pop(old)


def edit_pieces(file: Path) -> None:
    model = ModelProto.FromString(file.read_bytes())
    model.normalizer_spec.precompiled_charsmap = b"abc"
    file.write_bytes(model.SerializeToString())


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no target": (lambda f: (f / "target.spm").unlink(), "no target.spm beside vocab.json"),
    "a gap": (lambda f: edit(f / "vocab.json", lambda v: v.pop("<unk>")), "each once"),
    "no padding": (
        lambda f: edit(f / "vocab.json", lambda v: rename(v, "<pad>", "<other>")),
        "no <pad>",
    ),
    "a language": (
        lambda f: edit(f / "vocab.json", lambda v: rename(v, "▁the", ">>fr<<")),
        ">>fr<< chooses one of several target languages",
    ),
    "a lost piece": (
        lambda f: edit(f / "vocab.json", lambda v: rename(v, "▁the", "▁other")),
        "source.spm: its piece '▁the' has no id in vocab.json",
    ),
    "another start": (
        lambda f: edit(f / "config.json", lambda v: v.update(decoder_start_token_id=0)),
        "decoder_start_token_id=0 is not the padding token",
    ),
    "a pickle": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        "a pickle .* save_pretrained writes",
    ),
    "not pieces": (
        lambda f: (f / "source.spm").write_bytes(b"text"),
        "source.spm: not a SentencePiece model",
    ),
    "a map that the library refuses": (
        lambda f: edit_pieces(f / "target.spm"),
        "target.spm: not a SentencePiece model",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_is_refused(opus: Path, tmp_path: Path, case: str) -> None:
    damage, reason = DAMAGE[case]
    folder = Path(shutil.copytree(opus, tmp_path / "opus"))
    damage(folder)
    with pytest.raises(WarmstartError, match=reason):
        warmstart.import_model(folder=folder, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
