#!/usr/bin/env python3
"""Holds the two tiny models and tests/data/tiny.json against llama.cpp.

    check_tiny.py [--root FOLDER] [--threads N]

For each model: llama.cpp loads the file, tokenizes the cases, continues the prompts
greedily, and scores the held-out sample in the windows that tiny.json describes. The
weights were measured with PyTorch, so the two share no code. Exit status 1 if tokens
differ, if a greedy token differs where the best two logits are 0.25 or more apart, or
if the mean loss differs by more than 0.01 nats a token.

llama.cpp rounds activations to 8 bits before it multiplies them with q8_0 weights, so
its loss on the mixture is close to the measured one, not equal to it.
"""
import argparse
import json
import os
import sys

import numpy as np

import llama_cpp


def mean_nats(model, ids, facts):
    bos, step, total = facts["tokenizer"]["bos"], facts["window"]["context"] - 1, 0.0
    for at in range(0, len(ids), step):
        part = ids[at:at + step]
        rows = model.logits([bos] + part[:-1]).astype(np.float64)
        top = rows.max(1, keepdims=True)
        norm = top[:, 0] + np.log(np.exp(rows - top).sum(1))
        total += float((norm - rows[np.arange(len(part)), part]).sum())
    return total / len(ids)


def check(path, entry, facts, sample, threads):
    model, good = llama_cpp.Model(path, threads=threads), True
    wrong = [c["text"] for c in facts["tokenizer"]["cases"]
             if model.tokenize(c["text"], special=False, parse_special=False) != c["ids"]]
    print(f"  tokens: {len(facts['tokenizer']['cases']) - len(wrong)} of {len(facts['tokenizer']['cases'])} "
          f"cases agree{' but not ' + repr(wrong) if wrong else ''}")
    good &= not wrong
    for case in entry["greedy"]:
        tokens, rows = model.greedy(case["prompt_ids"], len(case["token_ids"]))
        differ = [i for i, (x, y) in enumerate(zip(tokens, case["token_ids"])) if x != y]
        if differ:  # after the first difference the two continue different texts
            i = differ[0]
            gap = float(rows[i].max() - rows[i][case["token_ids"][i]])
            print(f"  greedy {case['prompt']!r}: differs at {i}, gap {gap:.4f}")
            good &= gap < 0.25
        else:
            print(f"  greedy {case['prompt']!r}: all {len(tokens)} tokens equal")
    want = entry["texts"]["held_out.txt"]["mean_nats_per_token"]
    ids = model.tokenize(sample, special=False, parse_special=False)
    got = mean_nats(model, ids, facts)
    print(f"  held-out sample: {len(ids)} tokens, {got:.5f} nats a token, measured {want:.5f}")
    good &= len(ids) == entry["texts"]["held_out.txt"]["tokens"] and abs(got - want) <= 0.01
    model.close()
    return good


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", default=os.path.dirname(os.path.dirname(here)), help="root of the source tree")
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    with open(os.path.join(a.root, "tests/data/tiny.json")) as f:
        facts = json.load(f)
    with open(os.path.join(a.root, "tests/data/held_out.txt"), newline="") as f:
        sample = f.read()
    good = True
    print(f"llama.cpp {llama_cpp.version()}")
    for name, entry in facts["models"].items():
        print(name)
        good &= check(os.path.join(a.root, entry["file"]), entry, facts, sample, a.threads)
    print("agrees" if good else "DISAGREES")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
