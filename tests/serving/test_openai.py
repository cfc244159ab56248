"""The official client of OpenAI against a server of ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warmstart
from http_server import Server

openai = pytest.importorskip("openai")


@pytest.fixture
def client(server: Server) -> Any:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_models_are_listed_with_what_they_can(client: Any) -> None:
    found = {model.id: model for model in client.models.list()}
    assert list(found) == ["base", "masked", "sentiment", "fr"]
    assert found["sentiment"].abilities == ["classify", "embed", "attention"]
    assert found["sentiment"].labels == ["negative", "positive"]
    assert found["masked"].labels == []
    assert found["fr"].abilities == ["embed", "attention", "translate"]
    assert client.models.retrieve("masked").id == "masked"
    with pytest.raises(openai.NotFoundError, match="'gpt' is unknown"):
        client.models.retrieve("gpt")


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_embeddings_are_unit_vectors_of_the_run(
    encoding: str | None, client: Any, masked: Path
) -> None:
    texts = ["A fine book.", "A dull one, alas."]
    options = {} if encoding is None else {"encoding_format": encoding}
    answer = client.embeddings.create(model="masked", input=texts, **options)
    vectors: Any = [one.embedding for one in answer.data]
    if encoding == "base64":
        import base64

        vectors = [np.frombuffer(base64.b64decode(text), "<f4") for text in vectors]
    expected = warmstart.load(masked, threads=1).embed(texts, normalize=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 4
    one = client.embeddings.create(model="masked", input=texts[0])
    assert len(one.data) == 1


def test_completions_are_whole_or_streamed(client: Any, base: Path) -> None:
    asked = {"model": "base", "prompt": "This book", "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**asked)
    expected = warmstart.load(base, threads=1).generate("This book", max_tokens=8)
    assert "This book" + whole.choices[0].text == expected
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 8
    chunks = list(
        client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].text
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage == whole.usage


def test_several_prompts_and_choices(client: Any) -> None:
    asked = {"model": "base", "prompt": ["This", "That"], "n": 2, "max_tokens": 4, "seed": 5}
    found = client.completions.create(**asked, echo=True)
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    starts = [choice.text[:4] for choice in found.choices]
    assert starts == ["This", "This", "That", "That"]
    again = client.completions.create(**asked, echo=True, stream=True)
    texts = [""] * 4
    for chunk in again:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in found.choices]


def test_a_text_ends_before_a_stop_string(client: Any) -> None:
    asked = {"model": "base", "prompt": "This book", "max_tokens": 12, "temperature": 0}
    text = client.completions.create(**asked).choices[0].text
    stop = text[4:7]
    cut = client.completions.create(**asked, stop=[stop, "never"]).choices[0]
    assert cut.text == text[: text.index(stop)]
    assert cut.finish_reason == "stop"
    chunks = client.completions.create(**asked, stop=stop, stream=True)
    assert "".join(c.choices[0].text for c in chunks) == cut.text


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"model": "sentiment"}, "BadRequestError"),
        ({"prompt": [1, 2, 3]}, "UnprocessableEntityError"),
        ({"logprobs": 3}, "UnprocessableEntityError"),
        ({"frequency_penalty": 1}, "UnprocessableEntityError"),
        ({"extra_body": {"magic": 1}}, "UnprocessableEntityError"),
        ({"prompt": "word " * 99}, "BadRequestError"),
        ({"prompt": "word " * 99, "stream": True}, "BadRequestError"),
    ],
)
def test_what_cannot_be_completed_is_refused(
    change: dict[str, Any], kind: str, client: Any
) -> None:
    with pytest.raises(getattr(openai, kind)):
        client.completions.create(**{"model": "base", "prompt": "a", **change})
