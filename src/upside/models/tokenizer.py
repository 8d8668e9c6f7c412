"""The bundled model's tokenizer: one token for each character of the notation and for each filler word."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from upside.models.tutors import FILLERS

PAD, EOS, UNKNOWN, USER, ASSISTANT = SPECIAL = ("<pad>", "<eos>", "<unk>", "<user>", "<assistant>")

CHARACTERS = "0123456789+-*=;,#?:&|^!>xknftABCD "

CONTEXT = 160
"""Longest prompt and response together, in tokens."""

TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<assistant>' + message['content'] + '<eos>' if message['role'] == 'assistant' "
    "else '<user>' + message['content'] }}"
    "{% endfor %}{{ '<assistant>' if add_generation_prompt else '' }}"
)
"""Any role but the assistant's counts as the user."""


def build() -> PreTrainedTokenizerFast:
    """The tokenizer, the same at every call. Text outside the notation becomes <unk>."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *CHARACTERS, *FILLERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r" [a-z]+|[\s\S]"), behavior="isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        additional_special_tokens=[USER, ASSISTANT],
        chat_template=TEMPLATE,
        model_max_length=CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
