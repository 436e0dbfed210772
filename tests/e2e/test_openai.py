"""The real `openai` package over the Unix socket."""
import openai
import pytest

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def test_models(daemon):
    models = daemon.openai().models.list().data
    assert [m.id for m in models] == ["smollm2"]
    assert daemon.openai().models.retrieve("smollm2").id == "smollm2"


def test_chat(daemon):
    got = daemon.openai().chat.completions.create(model="smollm2", messages=QUESTION, temperature=0, max_tokens=24)
    assert got.object == "chat.completion"
    assert "Paris" in got.choices[0].message.content
    assert got.choices[0].message.role == "assistant"
    assert got.choices[0].finish_reason in ("stop", "length")
    assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens
    assert set(got.kvern["cache"]) >= {"reused", "computed", "reason", "first_divergence"}
    assert got.kvern["cache"]["reused"] == got.usage.prompt_tokens_details.cached_tokens
    assert got.kvern["cache"]["computed"] + got.kvern["cache"]["reused"] == got.usage.prompt_tokens


def test_chat_stream_is_the_same_answer(daemon):
    client = daemon.openai()
    whole = client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=0, max_tokens=24)
    chunks = list(client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=0, max_tokens=24,
                                                 stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].delta.role for c in chunks if c.choices and c.choices[0].delta.role] == ["assistant"]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({(c.id, c.created, c.object) for c in chunks}) == 1
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert all(c.usage is None for c in chunks[:-1])
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage


def test_stream_without_include_usage_has_none(daemon):
    chunks = list(daemon.openai().chat.completions.create(model="smollm2", messages=QUESTION, max_tokens=4, stream=True))
    assert all(c.choices and c.usage is None for c in chunks)


def test_completion_and_stream(daemon):
    client = daemon.openai()
    whole = client.completions.create(model="smollm2", prompt="One, two, three,", temperature=0, max_tokens=8)
    assert "four" in whole.choices[0].text
    assert whole.choices[0].finish_reason == "length"
    parts = client.completions.create(model="smollm2", prompt="One, two, three,", temperature=0, max_tokens=8, stream=True)
    assert "".join(p.choices[0].text for p in parts if p.choices) == whole.choices[0].text


def test_logprobs(daemon):
    got = daemon.openai().chat.completions.create(model="smollm2", messages=QUESTION, temperature=0, max_tokens=5,
                                                  logprobs=True, top_logprobs=20)
    content = got.choices[0].logprobs.content
    assert len(content) == got.usage.completion_tokens
    for token in content:
        assert len(token.top_logprobs) == 20
        assert token.logprob == token.top_logprobs[0].logprob <= 0
        assert bytes(token.bytes).decode(errors="replace") == token.token
    old = daemon.openai().completions.create(model="smollm2", prompt="One, two,", temperature=0, max_tokens=3, logprobs=2)
    assert len(old.choices[0].logprobs.tokens) == 3
    assert len(old.choices[0].logprobs.top_logprobs) == 3
    assert old.choices[0].logprobs.text_offset[0] == 0


def test_n_choices_with_one_seed_are_repeatable(daemon):
    def ask():
        got = daemon.openai().chat.completions.create(model="smollm2", messages=QUESTION, temperature=1, seed=7, n=3,
                                                      max_tokens=12)
        return [(c.index, c.message.content) for c in got.choices]

    first = ask()
    assert [index for index, _ in first] == [0, 1, 2]
    assert ask() == first


def test_stop_string_across_tokens(daemon):
    prompt = "A B C D E F G H I J K"
    free = daemon.openai().completions.create(model="smollm2", prompt=prompt, temperature=0, max_tokens=24)
    assert "P Q R" in free.choices[0].text
    cut = daemon.openai().completions.create(model="smollm2", prompt=prompt, temperature=0, max_tokens=24, stop=["P Q R"])
    assert cut.choices[0].text == free.choices[0].text.split("P Q R")[0]
    assert cut.choices[0].finish_reason == "stop"


def test_max_completion_tokens_and_length(daemon):
    got = daemon.openai().chat.completions.create(model="smollm2", messages=QUESTION, max_completion_tokens=1)
    assert got.usage.completion_tokens == 1
    assert got.choices[0].finish_reason == "length"


def test_errors_are_openai_errors(daemon):
    client = daemon.openai()
    with pytest.raises(openai.NotFoundError) as wrong_model:
        client.chat.completions.create(model="gpt-9", messages=QUESTION)
    assert wrong_model.value.code == "model_not_found"
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as too_long:
            client.completions.create(model="smollm2", prompt=[5] * 9000, max_tokens=1, stream=stream)
        assert too_long.value.code == "context_length_exceeded"
        assert "9000" in too_long.value.message and "8192" in too_long.value.message
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="smollm2", messages=QUESTION, logit_bias={"191222": -100})


def test_tokens_are_returned_as_vllm_does(daemon):
    ids = daemon.post("/v1/tokenize", text="One, two,", add_special=False).json()["tokens"]
    got = daemon.openai().completions.create(model="smollm2", prompt=ids, temperature=0, max_tokens=4,
                                             extra_body={"return_token_ids": True, "ignore_eos": True})
    assert got.choices[0].prompt_token_ids == ids
    assert len(got.choices[0].token_ids) == 4
    assert daemon.post("/v1/detokenize", tokens=got.choices[0].token_ids).json()["text"] == got.choices[0].text
