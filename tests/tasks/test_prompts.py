"""One renderer for training and evaluation: BOS once, no EOS, the same ids on both sides. trl#3520, marin#7179"""

import pytest
import tiny_vision
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from upside.models.loading import load_model
from upside.tasks import Problem, load_task
from upside.tasks.pictures import PictureError, pictures_of
from upside.tasks.prompts import prompt_ids, render_prompt, text_ids, within_limit

LLAMA = (  # writes BOS itself, as Llama 3's template does
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
QWEN = LLAMA.removeprefix("{{ bos_token }}")  # no BOS anywhere, as the model was trained
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
)
DEAF = "{% for m in messages %}{% if m.role == 'user' %}[user]{{ m.content }}{% endif %}{% endfor %}"

PAD, EOS, BOS = 0, 1, 2
ADDS = {"nothing": None, "bos": "<s> $A", "bos and eos": "<s> $A </s>", "eos": "$A </s>"}


def build(adds: str, template: str | None = None) -> PreTrainedTokenizerFast:
    vocab = {"<pad>": PAD, "</s>": EOS, "<s>": BOS}
    for symbol in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[symbol] = len(vocab)
    inner = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    if ADDS[adds] is not None:
        inner.post_processor = TemplateProcessing(single=ADDS[adds], special_tokens=[("<s>", BOS), ("</s>", EOS)])
    names = {"pad_token": "<pad>", "eos_token": "</s>", "bos_token": "<s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, padding_side="left", **names)
    tokenizer.chat_template = template
    return tokenizer


def ask(text: str, **how: object) -> Problem:
    return Problem("p", text, "", **how)  # type: ignore[arg-type]


def trained_on(tokenizer: PreTrainedTokenizerFast, problems: list[Problem]) -> list[list[int]]:
    """The ids that the trainer makes of the rendered prompts, by the method a run calls."""
    from upside.engines.trl import AdvantageTrainer

    trainer = object.__new__(AdvantageTrainer)
    vars(trainer).update(
        _is_vlm=False, environment_factories=None, processing_class=tokenizer, tools=[], chat_template=None,
        chat_template_kwargs={},
    )  # fmt: skip
    ids, _, _ = trainer._tokenize_prompts([render_prompt(tokenizer, problem) for problem in problems])
    return [list(row) for row in ids]


@pytest.mark.parametrize("adds", ADDS)
@pytest.mark.parametrize(
    ("template", "text", "bos"), [(LLAMA, "<s>[user]1+1\n[assistant]", 1), (QWEN, "[user]1+1\n[assistant]", 0)]
)
def test_a_chat_prompt_is_what_the_template_writes(adds, template, text, bos):
    tokenizer = build(adds, template)
    ids = prompt_ids(tokenizer, ask("1+1"))
    assert tokenizer.decode(ids) == text
    assert (ids.count(BOS), ids.count(EOS)) == (bos, 0)


@pytest.mark.parametrize("template", [None, LLAMA])
@pytest.mark.parametrize(
    ("adds", "text", "decoded"),
    [
        ("nothing", "Q: 1", "Q: 1"),
        ("nothing", "<s>Q: 1", "<s>Q: 1"),
        ("bos", "Q: 1", "<s>Q: 1"),
        ("bos", "<s>Q: 1", "<s>Q: 1"),
        ("bos", "<s>", "<s>"),
        ("bos and eos", "Q: 1", "<s>Q: 1"),
        ("bos and eos", "<s>Q: 1", "<s>Q: 1"),
        ("bos and eos", "Q</s>Q: 1", "<s>Q</s>Q: 1"),
        ("bos and eos", "Q: 1</s>", "<s>Q: 1</s>"),  # written by the user, so meant
        ("eos", "Q: 1", "Q: 1"),
        ("bos", "aaaa", "<s>aaaa"),
        ("bos and eos", "é\n", "<s>é\n"),
    ],
)
def test_plain_text_has_bos_once_and_no_eos_of_the_tokenizer(template, adds, text, decoded):
    tokenizer = build(adds, template)
    assert tokenizer.decode(prompt_ids(tokenizer, ask(text, chat=False))) == decoded
    assert text_ids(tokenizer, text) == prompt_ids(tokenizer, ask(text, chat=False))


@pytest.mark.parametrize("adds", ADDS)
@pytest.mark.parametrize(
    ("template", "how"),
    [(LLAMA, {}), (LLAMA, {"system": "Be brief."}), (LLAMA, {"chat": False}), (QWEN, {}), (None, {}), (GEMMA, {})],
)
def test_training_reads_the_same_tokens(adds, template, how):
    tokenizer = build(adds, template)
    problems = [ask("1+1", **how), ask("a longer one\n\n", **how), ask("<s>2", **how)]
    assert trained_on(tokenizer, problems) == [prompt_ids(tokenizer, problem) for problem in problems]


def test_a_template_without_a_system_role_names_the_option():
    asked = ask("1+1", system="Be brief.")
    with pytest.raises(
        ValueError, match=r"option system: .*refuses it \(TemplateError: System role not supported\).*template"
    ):
        prompt_ids(build("bos", GEMMA), asked)
    with pytest.raises(ValueError, match=r"task option system: .*leaves it out"):
        prompt_ids(build("bos", DEAF), asked)
    with pytest.raises(ValueError, match="system prompt, but the tokenizer has no chat template"):
        prompt_ids(build("bos", None), asked)
    assert prompt_ids(build("bos", GEMMA), ask("1+1")).count(BOS) == 1


def test_a_system_prompt_is_heard_when_the_tokens_change():
    """Not when its text stands in the question by chance, and though the template spells it in its own way or has it
    as its default."""
    with pytest.raises(ValueError, match=r"task option system: .*leaves it out"):
        prompt_ids(build("bos", DEAF), ask("Answer this: 1+1", system="Answer"))
    loud = build("bos", LLAMA.replace("m.content", "m.content|upper").replace("m['content']", "m['content']|upper"))
    assert "BE BRIEF." in loud.decode(prompt_ids(loud, ask("1+1", system="Be brief.")))
    default = "{% if messages[0].role != 'system' %}[system]Help.\n{% endif %}" + LLAMA
    assert "Help." in build("bos", default).decode(prompt_ids(build("bos", default), ask("1+1", system="Help.")))


def test_a_template_that_cannot_take_a_question():
    with pytest.raises(ValueError, match=r"cannot render a user message \(TemplateError: no users here\)"):
        prompt_ids(build("bos", "{{ raise_exception('no users here') }}"), ask("1+1"))
    with pytest.raises(ValueError, match=r"cannot render a user message \(ZeroDivisionError"):
        prompt_ids(build("bos", "{{ 1 / 0 }}"), ask("1+1"))


def test_the_limit_counts_special_tokens():  # trl#4358
    problems = [ask("123"), ask("1234"), ask("12345")]
    assert within_limit(build("bos and eos"), problems, 5) == (problems[:2], 1)


def test_a_picture_is_never_left_out_in_silence():
    problem = load_task("shapes").problems("train", 1)[0]
    with pytest.raises(ValueError, match=r"problem 'shapes/.*' has pictures"):
        render_prompt(None, problem)


def test_prompts_of_one_text_with_pictures_of_other_sizes_are_told_apart(tmp_path):
    _, reader = load_model(tiny_vision.llava(tmp_path))  # a token for each 16 x 16 pixels
    shown = [pictures_of("image", Image.new("RGB", size), "row 1", None) for size in ((64, 64), (32, 64))]
    lengths = [len(prompt_ids(reader, Problem("p", "area?", "3", images=images))) for images in shown]
    assert lengths[0] - lengths[1] == 8


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem("p", "<image>area?", "3"), "the prompt holds <image>"),
        (Problem("p", "<image>area?", "3", chat=False), "the prompt holds <image>"),
        (Problem("p", "area of <|picture|>?", "3"), r"the prompt holds <\|picture\|>"),
        (Problem("p", "area?", "3", system="Look at <image>."), "the system prompt holds <image>"),
    ],
)
def test_a_mark_without_a_picture_is_told(problem, message):
    class Seeing:
        image_processor, chat_template, image_token = object(), "", "<|picture|>"

    with pytest.raises(PictureError, match=f"problem 'p': {message}, which stands for a picture, and there is none"):
        render_prompt(Seeing(), problem)
