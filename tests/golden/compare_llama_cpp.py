#!/usr/bin/env python3
"""Compares tern with llama.cpp on a real model.

    compare_llama_cpp.py MODEL.gguf --prepare [--exact]         runs llama.cpp and caches its answers
    compare_llama_cpp.py MODEL.gguf --score PROGRAM [--exact]   runs tern's `score` and compares
    compare_llama_cpp.py MODEL.gguf --tokenize PROGRAM          compares the tokens of texts
    compare_llama_cpp.py MODEL.gguf --yardstick                 llama.cpp against its own exact run
    compare_llama_cpp.py MODEL.gguf --tokens TEXT               prints llama.cpp's tokens of a text

For three fixed prompts llama.cpp tokenises, generates 64 tokens greedily, and gives the logits of those
64 positions with the tokens forced. `score MODEL --tokens 1,2,3 --out FILE` (f32 activations) must write raw
little-endian f32 logits, one row per input position. Reported per prompt: positions where the argmax
differs, the largest gap there (how far below its own best llama.cpp puts tern's choice), and the mean
KL(llama.cpp || tern) over the 64 positions. Exit status 1 if an argmax differs with a gap of 0.25 or
more, or if the mean KL is 0.01 or more (with --exact 0.1 and 1e-4); 2 if something could not be run.

llama.cpp rounds activations to 8 bits before it multiplies them with quantized weights, so it is itself
an approximation of the stored weights. With --exact the reference is llama.cpp on a copy of the model
whose weights were dequantized to f32, where all is f32 (but GELU, which libggml looks up in a table of f16
values), so a correct program comes far closer to it; --yardstick says how far llama.cpp's usual path is from it.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import llama_cpp

PROMPTS = [
    "The capital of France is Paris. The capital of Italy is Rome. The capital of Japan is",
    "Once upon a time, in a village by the sea, there lived an old fisherman who",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
]
TEXTS = PROMPTS + [
    "Hello, world!  Two spaces, a tab\tand\n\n\nthree newlines.",
    "na\u00efve caf\u00e9 \u2014 \u201cquotes\u201d, 12345 + 67.89 = 12412.89, don't, I'LL",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0 \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u0639\u0631\u0628\u064a \U0001f469\u200d\U0001f680\U0001f30d",
    " leading and trailing space ",
    "",
]
NEW = 64
LIMITS = {False: (0.25, 0.01), True: (0.1, 1e-4)}  # largest gap, mean KL; by --exact


def cache_name(model, cache):
    name = os.path.splitext(os.path.basename(model))[0]
    return os.path.join(cache or os.path.dirname(os.path.abspath(model)), f"ref-{name}.npz")


def dequantized(model, path):
    """Writes a copy of the model with every tensor as f32, and all metadata as it was."""
    import gguf
    from gguf.quants import dequantize
    reader = gguf.GGUFReader(model)
    arch = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(path, arch)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = 0 if key == "general.file_type" else field.contents()
        kind = field.types[0]
        writer.add_key_value(key, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        writer.add_tensor_info(t.name, t.shape.tolist()[::-1], np.dtype(np.float32), int(np.prod(t.shape)) * 4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for t in reader.tensors:  # one at a time: the whole model in f32 need not fit in memory
        writer.write_tensor_data(dequantize(t.data, t.tensor_type).astype(np.float32).reshape(t.shape.tolist()[::-1]))
    writer.close()


def prepare(model, path, exact, threads):
    data = dict(np.load(path)) if os.path.exists(path) else {}
    before = len(data)
    if "tokens0" not in data:
        m = llama_cpp.Model(model, threads=threads)
        data["version"] = llama_cpp.version()
        for i, prompt in enumerate(PROMPTS):
            tokens = m.tokenize(prompt)
            new, _ = m.greedy(tokens, NEW)
            data[f"prompt{i}"] = np.array(len(tokens))
            data[f"tokens{i}"] = np.array(tokens + new, dtype=np.int32)
            data[f"logits{i}"] = m.logits(tokens + new[:-1])[len(tokens) - 1:]
        m.close()
    if exact and "exact0" not in data:
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            copy = os.path.join(folder, "f32.gguf")
            dequantized(model, copy)
            m = llama_cpp.Model(copy, threads=threads)
            for i in range(len(PROMPTS)):
                data[f"exact{i}"] = m.logits(list(data[f"tokens{i}"][:-1]))[int(data[f"prompt{i}"]) - 1:]
            m.close()
    if len(data) != before:
        np.savez(path, **data)
    return data


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def compare(label, reference, ours, exact=False):
    """Prints one line; true if within the limits, and the mean KL."""
    if not np.isfinite(ours).all():
        print(f"{label}: not every logit is finite")
        return False, float("nan")
    theirs, mine = reference.argmax(-1), ours.argmax(-1)
    rows = np.arange(len(reference))
    gaps = (reference[rows, theirs] - reference[rows, mine])[theirs != mine]
    p, q = log_softmax(reference), log_softmax(ours)
    kl = float((np.exp(p) * (p - q)).sum(-1).mean())
    gap = float(gaps.max()) if len(gaps) else 0.0
    off = float(np.abs((ours - ours.mean(-1, keepdims=True)) - (reference - reference.mean(-1, keepdims=True))).max())
    print(f"{label}: argmax differs at {len(gaps)} of {len(reference)} positions, largest gap {gap:.4f}, "
          f"mean KL {kl:.3e}, largest centred logit difference {off:.4f}")
    return gap < LIMITS[exact][0] and kl < LIMITS[exact][1], kl


def score(program, model, tokens, vocab, extra):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "logits.f32")
        command = [program, model, "--tokens", ",".join(map(str, tokens)), "--out", out] + extra
        done = subprocess.run(command)
        if done.returncode != 0:
            print(f"score failed with status {done.returncode}")
            sys.exit(2)
        logits = np.fromfile(out, dtype="<f4")
    if logits.size != len(tokens) * vocab:
        print(f"score wrote {logits.size} floats, expected {len(tokens)} x {vocab}")
        sys.exit(2)
    return logits.reshape(len(tokens), vocab)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model")
    a.add_argument("--prepare", action="store_true")
    a.add_argument("--exact", action="store_true")
    a.add_argument("--score", metavar="PROGRAM")
    a.add_argument("--score-arg", action="append", default=[], help="a further argument for score; may repeat")
    a.add_argument("--tokenize", metavar="PROGRAM")
    a.add_argument("--tokens", metavar="TEXT")
    a.add_argument("--yardstick", action="store_true")
    a.add_argument("--cache", metavar="FOLDER", help="where ref-NAME.npz lies (default: beside the model)")
    a.add_argument("--threads", type=int, default=1)
    a = a.parse_args()
    path = cache_name(a.model, a.cache)
    good = True

    if a.tokens is not None or a.tokenize:
        m = llama_cpp.Model(a.model, vocab_only=True)
        if a.tokens is not None:
            print(" ".join(map(str, m.tokenize(a.tokens))))
        for text in TEXTS if a.tokenize else []:
            done = subprocess.run([a.tokenize, a.model, text], capture_output=True, text=True)
            ours, theirs = [int(t) for t in re.findall(r"\d+", done.stdout)], m.tokenize(text)
            same = done.returncode == 0 and ours == theirs
            good &= same
            print(f"{'same  ' if same else 'DIFFER'} {text!r}" + ("" if same else f"\n  llama.cpp {theirs}\n  tern      {ours} {done.stderr}"))
        m.close()

    if a.prepare or a.score or a.yardstick:
        data = prepare(a.model, path, a.exact or a.yardstick, a.threads)
        kls = []
        for i in range(len(PROMPTS)):
            reference = data[f"exact{i}" if a.exact else f"logits{i}"]
            if a.yardstick:
                compare(f"prompt {i}: usual llama.cpp judged by exact", data[f"exact{i}"], data[f"logits{i}"])
                compare(f"prompt {i}: exact llama.cpp judged by usual", data[f"logits{i}"], data[f"exact{i}"])
            if a.score:
                tokens = [int(t) for t in data[f"tokens{i}"][:-1]]
                ours = score(a.score, a.model, tokens, reference.shape[1], a.score_arg)[int(data[f"prompt{i}"]) - 1:]
                ok, kl = compare(f"prompt {i}", reference, ours, a.exact)
                good &= ok
                kls.append(kl)
        if kls:
            print(f"mean KL over all: {np.mean(kls):.3e}; {'within' if good else 'OUTSIDE'} the limits "
                  f"(gap < {LIMITS[a.exact][0]}, mean KL < {LIMITS[a.exact][1]}); reference {data['version']}{', exact' if a.exact else ''}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
