#!/usr/bin/env python3
"""Golden blocks for the number formats, from the Python package `gguf` (numpy code, independent of libggml).

Writes into ../data/formats:
  NAME.bin   encoded blocks: random valid bytes first, hand-made adversarial blocks last
  NAME.f32   what gguf.quants.dequantize makes of them, little-endian f32
  input.f32  4096 floats to encode
  index.json per format: type id, block size and bytes, blocks, rmse of gguf's own encoder on input.f32
             (null where gguf has none) and of libggml's encoder where xllamacpp is installed

Every decoded value is finite, apart from the infinities in f32, f16 and bf16 itself; there is no NaN.
"""
import json
import os
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "formats")
NAMES = ["f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
         "iq4_nl", "mxfp4"]
# byte offsets of the f16 scales inside a block
SCALES = {"q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "iq4_nl": [0],
          "q2_k": [80, 82], "q3_k": [108], "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208]}
# f16 patterns: +-0, smallest and largest denormal, smallest normal, one, largest finite, and negatives
HALVES = [0x0000, 0x8000, 0x0001, 0x03FF, 0x8001, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]


def type_of(name):
    return T[name.upper()]


def plain(name, rng):
    """Floats by bit pattern: every class of value but NaN."""
    bits, dtype = {"f32": (32, np.uint32), "f16": (16, np.uint16), "bf16": (16, np.uint16)}[name]
    exponent = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}[name]
    mantissa = {"f32": 0x007FFFFF, "f16": 0x03FF, "bf16": 0x007F}[name]
    sign = 1 << (bits - 1)
    corner = [0, 1, mantissa, mantissa + 1, exponent, exponent - 1, exponent - (mantissa + 1)]
    corner += [c | sign for c in corner]
    v = rng.integers(0, 1 << bits, size=2048, dtype=np.uint64).astype(dtype)
    is_nan = ((v & exponent) == exponent) & ((v & mantissa) != 0)
    v[is_nan] &= dtype(~mantissa & ((1 << bits) - 1))
    v[-len(corner):] = corner
    return v.view(np.uint8)


def blocks(name, rng):
    size, nbytes = GGML_QUANT_SIZES[type_of(name)]
    if size == 1:
        return plain(name, rng)
    count = 8 if size == 256 else 48
    b = rng.integers(0, 256, size=(count, nbytes), dtype=np.uint8)
    for at in SCALES.get(name, []):  # random, finite, of a usual size
        half = rng.normal(0, 0.02, size=count).astype(np.float16)
        b[:, at:at + 2] = half.view(np.uint8).reshape(-1, 2)
    if name == "mxfp4":
        b[:, 0] = rng.integers(100, 140, size=count)

    extra = []
    fills = [0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x7F]
    scale_bytes = [[h & 0xFF, h >> 8] for h in HALVES]
    if name == "mxfp4":
        # 0 and 1 are the denormal scales; 0xFB is the largest that keeps every value finite
        for i, e in enumerate([0, 1, 2, 127, 128, 0xFB, 0x7F, 0]):
            extra.append(np.full(nbytes, fills[i % len(fills)], np.uint8))
            extra[-1][0] = e
            extra.append(rng.integers(0, 256, size=nbytes, dtype=np.uint8))
            extra[-1][0] = e
    else:
        # all-zero; then each fill with scale one; then each scale with random codes
        extra.append(np.zeros(nbytes, np.uint8))
        few = size == 256
        for f in fills[1:]:
            e = np.full(nbytes, f, np.uint8)
            for at in SCALES[name]:
                e[at:at + 2] = scale_bytes[6]
            extra.append(e)
        for i, s in enumerate(scale_bytes):
            if few and i in (1, 4, 7, 9):
                continue
            e = rng.integers(0, 256, size=nbytes, dtype=np.uint8)
            for k, at in enumerate(SCALES[name]):
                e[at:at + 2] = scale_bytes[(i + k) % len(scale_bytes)] if k else s
            extra.append(e)
    return np.concatenate([b, np.stack(extra)]).reshape(-1)


def make_input(rng):
    x = rng.normal(0, 0.05, size=4096).astype(np.float32)
    at = rng.choice(4096, size=24, replace=False)
    x[at] *= rng.choice([8, 20, -15], size=24).astype(np.float32)  # outliers, so that some blocks are skewed
    x[1024:1344] = 0.0      # zero stretch: more than one block of 256
    x[2048:2336] = 0.0625   # constant, a power of two
    x[2336:2400] = -0.0371  # constant, not representable
    x[3072:3104] *= np.float32(1e-30)  # scales underflow in f16
    return x


def rmse(a, b):
    return float(np.sqrt(np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2)))


def main():
    os.makedirs(OUT, exist_ok=True)
    try:
        import llama_cpp
        llama_cpp.library()
    except ImportError:
        llama_cpp = None
    x = make_input(np.random.default_rng(20260101))
    x.astype("<f4").tofile(os.path.join(OUT, "input.f32"))
    index = {}
    for i, name in enumerate(NAMES):
        t = type_of(name)
        size, nbytes = GGML_QUANT_SIZES[t]
        raw = blocks(name, np.random.default_rng(1000 + i))
        with np.errstate(over="ignore", invalid="ignore"):
            y = dequantize(raw.reshape(1, -1), t).reshape(-1).astype("<f4")
        if np.isnan(y).any() or (size > 1 and not np.isfinite(y).all()):
            sys.exit(f"{name}: a decoded value is not finite")
        differs = None
        if llama_cpp is not None and size > 1:  # a second, independent decoder
            differs = int((llama_cpp.dequantize(name, raw, y.size).view(np.int32) != y.view(np.int32)).sum())
        raw.tofile(os.path.join(OUT, name + ".bin"))
        y.tofile(os.path.join(OUT, name + ".f32"))
        try:
            e = rmse(x, dequantize(quantize(x.reshape(1, -1), t), t).reshape(-1))
        except NotImplementedError:
            e = None
        ggml = None
        if llama_cpp is not None:
            if t == T.F32:
                ggml = 0.0
            else:
                ggml = rmse(x, dequantize(llama_cpp.quantize(int(t), x, 256 * 4).reshape(1, -1), t).reshape(-1))
        index[name] = {"type": int(t), "block": size, "bytes": nbytes, "blocks": raw.size // nbytes,
                       "rmse": e, "rmse_libggml": ggml}
        print(name, index[name], "" if differs is None else f"{differs} values differ from libggml's decode")
    with open(os.path.join(OUT, "index.json"), "w") as f:
        json.dump(index, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
