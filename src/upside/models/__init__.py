"""The bundled tiny reasoners: their weights, tokenizers, tutors and the scripts that made them.

`base/` is text only, `vision_base/` answers questions on pictures (`upside.models.vision`).
"""

from pathlib import Path


def bundled() -> Path:
    """Folder of the bundled base, loadable by `AutoModelForCausalLM` and `AutoTokenizer`."""
    return Path(__file__).parent / "base"


def bundled_vision() -> Path:
    """Folder of the bundled vision-language base, loadable by `AutoModelForImageTextToText` and `AutoProcessor`."""
    return Path(__file__).parent / "vision_base"
