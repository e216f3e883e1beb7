#!/usr/bin/env python3
"""Runs ../data/logits through llama.cpp: do the GGUF files mean there what make_logits.py meant?

Needs `xllamacpp`. Exact settings: f32 KV cache, no flash attention, one thread; and of a file with blocks a
copy in f32, because llama.cpp rounds activations before it multiplies them with blocks. Exit status 1 if any logit of
a file that llama.cpp can express differs by more than 1e-4 (gemma3: 1e-2, because libggml looks GELU up in a
table of f16 values), or if one that it cannot does not differ.
"""
import json
import os
import sys
import tempfile

import numpy as np

import compare_llama_cpp
import llama_cpp

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "logits")


def main():
    index = json.load(open(os.path.join(DATA, "index.json")))
    bad = 0
    for name, e in index["models"].items():
        want = np.fromfile(os.path.join(DATA, name + ".f32"), "<f4").reshape(-1, e["vocab"])
        path = os.path.join(DATA, e.get("file", name) + ".gguf")
        with tempfile.TemporaryDirectory() as folder:
            if e["architecture"] == "gpt-oss":
                compare_llama_cpp.dequantized(path, path := os.path.join(folder, "f32.gguf"))
            m = llama_cpp.Model(path, context=64)
            got = [m.run(e["tokens"][:e["prompt"]])]
            got += [m.run([t]) for t in e["tokens"][e["prompt"]:]]
            m.close()
        got = np.concatenate(got)
        difference = float(np.abs(got - want).max())
        same = difference <= (1e-2 if e["architecture"] == "gemma3" else 1e-4)
        bad += same != e["llama_cpp"]
        print(f"{name}: largest difference {difference:.2e}, argmax differs at {(got.argmax(-1) != want.argmax(-1)).sum()}"
              + ("" if e["llama_cpp"] else " (llama.cpp cannot express this one)")
              + ("" if same == e["llama_cpp"] else "  <- UNEXPECTED"))
    print(llama_cpp.version())
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
