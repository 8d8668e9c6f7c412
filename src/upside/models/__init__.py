"""The bundled tiny reasoner: weights in `base/`, its tokenizer, its tutors and the script that made it."""

from pathlib import Path


def bundled() -> Path:
    """Folder of the bundled base, loadable by `AutoModelForCausalLM` and `AutoTokenizer`."""
    return Path(__file__).parent / "base"
