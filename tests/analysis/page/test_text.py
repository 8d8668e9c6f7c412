from __future__ import annotations

import base64
import gzip
import json

import numpy as np

from upside.analysis.page.text import clean, cleaned, packed, script_json


def test_control_characters_are_symbols_and_lone_surrogates_replaced() -> None:
    assert clean("a\x00\x1b\x7f\t\nb") == "a␀␛␡\t\nb"
    assert clean("\ud800x\udfff \U0001f600") == "�x� \U0001f600"


def test_json_in_a_script_cannot_end_it_and_means_the_same() -> None:
    value = {"</script>": ["<!--", "a&b", "\u2028", '"\\']}
    text = script_json(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


def test_data_is_plain_and_short() -> None:
    assert cleaned([np.float32(0.5), np.bool_(True), float("nan"), float("-inf"), 0.123456789, 10**12]) == [
        0.5, True, None, None, 0.123457, 10**12,
    ]  # fmt: skip


def test_packed_data_comes_back() -> None:
    value = [["\ud800 </script>", 1.5, None]]
    assert json.loads(gzip.decompress(base64.b64decode(packed(value)))) == [["� </script>", 1.5, None]]
    assert packed(value) == packed(value)
