#!/usr/bin/env python3
"""Writes tests/data/routing/zipf1.txt: which experts each token of a made-up mixture is sent to.

    zipf_trace.py [--tokens 2000] [--layers 4] [--experts 64] [--used 4] [--exponent 1] [--seed 1] [--out FILE]

In each layer the experts have a fixed popularity: the k-th most popular is drawn with a weight of k^-exponent,
and which expert is k-th is a permutation of its own. A token draws distinct experts, one after the other, each
in proportion to the weights of those that are left. Draws of different tokens and layers are independent.

The file: a header line, then a line a token. A line has layers x used letters, those of the first layer first;
a letter is an expert's number in the alphabet of base64 (A to Z, a to z, 0 to 9, +, /).
"""
import argparse
import os

import numpy as np

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "routing", "zipf1.txt")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tokens", type=int, default=2000)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--experts", type=int, default=64)
    p.add_argument("--used", type=int, default=4)
    p.add_argument("--exponent", type=float, default=1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default=OUT)
    a = p.parse_args()
    if not 1 <= a.used <= a.experts <= len(LETTERS):
        p.error(f"used <= experts <= {len(LETTERS)} is required")

    rng = np.random.default_rng(a.seed)
    log_weights = -a.exponent * np.log(np.arange(1, a.experts + 1))
    layers = []
    for _ in range(a.layers):
        expert_of_rank = rng.permutation(a.experts)
        # The largest keys of log-weight plus Gumbel noise, in order, are draws without replacement.
        keys = log_weights + rng.gumbel(size=(a.tokens, a.experts))
        ranks = np.argsort(-keys, axis=1)[:, :a.used]
        layers.append(expert_of_rank[ranks])
    with open(a.out, "w") as out:
        print(f"routing tokens={a.tokens} layers={a.layers} experts={a.experts} used={a.used} "
              f"zipf={a.exponent:g} seed={a.seed} letters=base64 # zipf_trace.py: a line a token, layer by layer",
              file=out)
        for chosen in np.concatenate(layers, axis=1):
            print("".join(LETTERS[e] for e in chosen), file=out)


if __name__ == "__main__":
    main()
