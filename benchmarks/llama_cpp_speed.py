#!/usr/bin/env python3
"""Speed of llama.cpp on this machine, to compare with: times llama_decode itself.

    llama_cpp_speed.py MODEL.gguf [--threads 1] [--prefill 128] [--decode 64] [--repeat 3]

Prefill is one batch of N tokens into an empty cache with logits of the last position only; decode is
M steps of one token after that prompt, the next token chosen by argmax outside the timed part.
The best of the repeats is printed as one JSON line. Defaults are llama.cpp's own (f16 KV cache, flash
attention, repacked weights), not the exact path that the golden scripts use.

The prebuilt wheel of `xllamacpp` is compiled for AVX2, with neither AVX-512 nor AMX: on a CPU that has
them, llama.cpp built from source for that CPU is faster. "system" in the output says what was used.
"""
import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden"))
import llama_cpp


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model")
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--prefill", type=int, default=128)
    a.add_argument("--decode", type=int, default=64)
    a.add_argument("--repeat", type=int, default=3)
    a = a.parse_args()

    m = llama_cpp.Model(a.model, threads=a.threads, context=max(512, a.prefill + a.decode + 1),
                        ubatch=max(512, a.prefill), kv_f16=True, flash=True)
    prompt = [(i * 7919 + 13) % min(m.n_vocab, 20000) for i in range(a.prefill)]
    m.run(prompt[:8])  # first touch of the weights
    prefill = decode = float("inf")
    for _ in range(a.repeat):
        m.reset()
        t = time.perf_counter()
        row = m.run(prompt, every=False)[0]
        prefill = min(prefill, time.perf_counter() - t)
        spent = 0.0
        for _ in range(a.decode):
            token = [int(row.argmax())]
            t = time.perf_counter()
            row = m.run(token)[0]
            spent += time.perf_counter() - t
        decode = min(decode, spent)
    system = llama_cpp.library().llama_print_system_info().decode().strip(" |")
    print(json.dumps({"prefill_tps": round(a.prefill / prefill, 2), "decode_tps": round(a.decode / decode, 2),
                      "threads": a.threads, "prefill_tokens": a.prefill, "decode_tokens": a.decode,
                      "model": os.path.basename(a.model), "version": llama_cpp.version(), "system": system}))
    m.close()


if __name__ == "__main__":
    main()
