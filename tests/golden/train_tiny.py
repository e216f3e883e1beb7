#!/usr/bin/env python3
"""Trains the two tiny language models that ship with tern, and measures them.

What it makes
    examples/data/tiny.gguf      a dense llama-architecture model, stored as f16
    examples/data/tiny-moe.gguf  a sibling whose feed-forward layers are mixtures
                                 of 8 experts with 2 active, stored as q8_0
    tests/data/tiny.json         what was measured from the *stored* weights
    tests/data/held_out.txt      a piece of the held-out text, for C++ tests

Text
    The King James Version, from Debian's packages bible-kjv (the reader) and
    bible-kjv-text (the text, which Debian records as being out of copyright):
        apt-get install bible-kjv
    The reader unpacks it; one chapter becomes a heading line ("Genesis 1"), one
    line per verse without its number, and an empty line.

Split (chapters counted from 0 over all 1189 in the order of the book)
    chapter % 20 == 19  held out: only measured, once, after training
    chapter % 20 ==  9  validation: picks the checkpoint that is kept
    everything else     training: tokenizer, models and n-gram baselines

Python packages: torch, numpy, sentencepiece, gguf.

Examples
    train_tiny.py --stage all --work build/tiny
    train_tiny.py --stage export --work build/tiny   # from checkpoints so far
    train_tiny.py --stage all --steps 20 --moe-steps 20 --work build/smoke \\
        --models-dir build/smoke --data-dir build/smoke   # a quick look

The seed fixes initial weights and the order of the batches. Repeated runs agree
closely rather than bit for bit across machines, since float32 sums are ordered by
the library, the thread count and the instruction set.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time

import numpy as np
import sentencepiece as spm
import torch
import torch.nn.functional as F

# ---------------------------------------------------------------- the models

VOCAB = 2048
CONTEXT = 256
CONFIG = dict(vocab=VOCAB, dim=128, layers=4, heads=4, kv_heads=2, head_dim=32, ff=256,
              experts=0, active=0, context=CONTEXT, rope_base=10000.0, eps=1e-5)
# An expert has half the dense layer's width and two of them are active, so both
# models do the same work per token and differ in how many weights they hold.
MOE_CONFIG = dict(CONFIG, ff=128, experts=8, active=2)
BOS, EOS, UNK = 1, 2, 0


def parameter_shapes(c):
    d, q, kv, ff, e = (c["dim"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"],
                       c["ff"], c["experts"])
    shapes = {"token_embd.weight": (c["vocab"], d), "output_norm.weight": (d,)}
    for i in range(c["layers"]):
        b = f"blk.{i}."
        shapes |= {b + "attn_norm.weight": (d,), b + "ffn_norm.weight": (d,),
                   b + "attn_q.weight": (q, d), b + "attn_k.weight": (kv, d),
                   b + "attn_v.weight": (kv, d), b + "attn_output.weight": (d, q)}
        if e:
            shapes |= {b + "ffn_gate_inp.weight": (e, d), b + "ffn_gate_exps.weight": (e, ff, d),
                       b + "ffn_up_exps.weight": (e, ff, d), b + "ffn_down_exps.weight": (e, d, ff)}
        else:
            shapes |= {b + "ffn_gate.weight": (ff, d), b + "ffn_up.weight": (ff, d),
                       b + "ffn_down.weight": (d, ff)}
    return shapes


class Tiny(torch.nn.Module):
    """The llama architecture: RMSNorm, adjacent-pair rope, grouped-query attention,
    SwiGLU, and an output projection tied to the embedding. Parameters carry their
    GGUF names, so nothing is renamed or permuted when they are written."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.w = torch.nn.ParameterDict()
        residual = 0.02 / math.sqrt(2 * c["layers"])
        for name, shape in parameter_shapes(c).items():
            if "norm" in name:
                value = torch.ones(shape)
            else:
                deep = "attn_output" in name or "ffn_down" in name
                fan_in = 1.0 / math.sqrt(shape[-1])
                value = torch.randn(shape) * (0.02 if "embd" in name else
                                              fan_in * (residual / 0.02) if deep else fan_in)
            self.w[name.replace(".", "/")] = torch.nn.Parameter(value)
        half = c["head_dim"] // 2
        freq = c["rope_base"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(c["context"], dtype=torch.float64)[:, None] * freq
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)
        self.balance = None

    def p(self, name):
        return self.w[name.replace(".", "/")]

    def rope(self, x):  # (batch, heads, time, head_dim): pairs are (0,1), (2,3), ...
        t = x.shape[2]
        cos, sin = self.cos[:t].to(x.dtype), self.sin[:t].to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def mixture(self, x, b):
        """Softmax over the router's logits, the best k, renormalised to sum to one."""
        c, (n, d) = self.c, x.shape
        probs = F.softmax(x @ self.p(b + "ffn_gate_inp.weight").T, -1)
        weight, index = probs.topk(c["active"], -1)
        weight = weight / weight.sum(-1, keepdim=True)
        order = index.flatten().argsort(stable=True)
        token = order // c["active"]
        counts = index.flatten().bincount(minlength=c["experts"])
        gate, up, down = (self.p(b + f"ffn_{k}_exps.weight").unbind(0) for k in ("gate", "up", "down"))
        out = [(F.silu(xs @ g.T) * (xs @ u.T)) @ o.T
               for xs, g, u, o in zip(x[token].split(counts.tolist()), gate, up, down)]
        out = torch.cat(out) * weight.flatten()[order][:, None]
        if self.training:  # experts * sum(share of tokens * mean probability); 1 is balanced
            share = counts.to(x.dtype) / counts.sum()
            self.balance = self.balance + c["experts"] * (share * probs.mean(0)).sum()
        return torch.zeros_like(x).index_add_(0, token, out)

    def forward(self, ids):
        c = self.c
        n, t = ids.shape
        self.balance = 0.0
        x = F.embedding(ids, self.p("token_embd.weight"))
        for i in range(c["layers"]):
            b = f"blk.{i}."
            h = F.rms_norm(x, (c["dim"],), self.p(b + "attn_norm.weight"), c["eps"])
            split = lambda w, k: (h @ self.p(b + w).T).view(n, t, k, c["head_dim"]).transpose(1, 2)
            q = self.rope(split("attn_q.weight", c["heads"]))
            k = self.rope(split("attn_k.weight", c["kv_heads"]))
            v = split("attn_v.weight", c["kv_heads"])
            g = c["heads"] // c["kv_heads"]
            a = F.scaled_dot_product_attention(q, k.repeat_interleave(g, 1),
                                               v.repeat_interleave(g, 1), is_causal=True)
            x = x + a.transpose(1, 2).reshape(n, t, -1) @ self.p(b + "attn_output.weight").T
            h = F.rms_norm(x, (c["dim"],), self.p(b + "ffn_norm.weight"), c["eps"])
            if c["experts"]:
                x = x + self.mixture(h.view(n * t, -1), b).view(n, t, -1)
            else:
                h = F.silu(h @ self.p(b + "ffn_gate.weight").T) * (h @ self.p(b + "ffn_up.weight").T)
                x = x + h @ self.p(b + "ffn_down.weight").T
        x = F.rms_norm(x, (c["dim"],), self.p("output_norm.weight"), c["eps"])
        return x @ self.p("token_embd.weight").T

    def named(self):
        return {k.replace("/", "."): v for k, v in self.w.items()}


def upcycle(dense, seed):
    """The mixture starts as the trained dense model, computing the same function:
    everything outside the feed-forward layers is copied, and each pair of experts
    shares out the dense layer's hidden units at random, half each. The router's rows
    of a pair begin equal, so that both are chosen with a gate of one half, which the
    doubled down projections make up for. Each pair sees other tokens and each expert
    other units, so that training moves all of them, and the pairs, apart."""
    g = torch.Generator().manual_seed(seed)
    model, old = Tiny(MOE_CONFIG), dense.named()
    new, half = model.named(), MOE_CONFIG["ff"]
    with torch.no_grad():
        for name in new:
            if name in old:
                new[name].copy_(old[name])
        for i in range(CONFIG["layers"]):
            b = f"blk.{i}.ffn_"
            new[b + "gate_inp.weight"].mul_(0.1)
            for e in range(0, MOE_CONFIG["experts"], 2):
                new[b + "gate_inp.weight"][e + 1] = new[b + "gate_inp.weight"][e]
                units = torch.randperm(CONFIG["ff"], generator=g)
                for j in (0, 1):
                    u = units[j * half:(j + 1) * half]
                    new[b + "gate_exps.weight"][e + j] = old[b + "gate.weight"][u]
                    new[b + "up_exps.weight"][e + j] = old[b + "up.weight"][u]
                    new[b + "down_exps.weight"][e + j] = 2 * old[b + "down.weight"][:, u]
    return model


# ------------------------------------------------------------------ the text

def read_chapters():
    try:
        raw = subprocess.run(["bible", "-l", "1000000", "gen1:1-rev22:21"], check=True,
                             capture_output=True, text=True).stdout
    except FileNotFoundError:
        sys.exit("the program `bible` is missing: apt-get install bible-kjv")
    chapters = []
    for line in raw.splitlines():
        verse = re.match(r" +\d+ (.*)", line)
        if verse:
            chapters[-1].append(verse[1].strip())
        elif line.strip():
            chapters.append([line.strip()])
    if len(chapters) != 1189:
        sys.exit(f"expected 1189 chapters, found {len(chapters)}")
    return ["\n".join(c) + "\n\n" for c in chapters]


def split_chapters(chapters):
    part = lambda want: "".join(c for i, c in enumerate(chapters) if want(i % 20))
    return part(lambda r: r not in (9, 19)), part(lambda r: r == 9), part(lambda r: r == 19)


def train_tokenizer(text, prefix):
    """Byte-pair pieces in the SentencePiece style that GGUF calls "llama": scores
    order the merges, and bytes without a piece fall back to <0x00>..<0xFF>."""
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(l for l in text.split("\n") if l), model_prefix=prefix,
        model_type="bpe", vocab_size=VOCAB, byte_fallback=True, character_coverage=1.0,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True,
        split_digits=True, required_chars="0123456789", unk_id=UNK, bos_id=BOS, eos_id=EOS,
        pad_id=-1, num_threads=1, max_sentence_length=1 << 16, minloglevel=2)


# -------------------------------------------------------------- the baseline

class KneserNey:
    """Interpolated Kneser-Ney with three discounts per order, after Chen and
    Goodman (1998): discounts from the counts of counts, continuation counts below
    the highest order, and a uniform distribution under the unigrams."""

    def __init__(self, seq, order, alphabet):
        self.order, self.alphabet = order, alphabet
        seq = np.asarray(seq, np.int64)
        keys, counts = np.unique(self.grams(seq, order), return_counts=True)
        self.levels = []
        for n in range(order, 0, -1):
            ones, twos, threes, fours = (np.count_nonzero(counts == k) for k in (1, 2, 3, 4))
            y = ones / (ones + 2 * twos)
            discount = np.array([0.0, 1 - 2 * y * twos / ones, 2 - 3 * y * threes / twos,
                                 3 - 4 * y * fours / threes]) if min(ones, twos, threes) else \
                np.array([0.0, 0.5, 0.5, 0.5])
            contexts, where = np.unique(keys // alphabet, return_inverse=True)
            total = np.bincount(where, counts)
            cut = discount[np.minimum(counts, 3)]
            self.levels.append((n, keys, counts - cut, contexts, total, np.bincount(where, cut) / total))
            # A shorter gram counts once for each symbol seen before it.
            keys, counts = np.unique(keys % alphabet ** (n - 1), return_counts=True)

    def grams(self, seq, n):
        out = np.zeros(len(seq) - n + 1, np.int64)
        for i in range(n):
            out = out * self.alphabet + seq[i:len(seq) - n + 1 + i]
        return out

    def bits(self, seq, start):
        """Total bits of seq[start:], every symbol seeing all the context before it."""
        seq = np.asarray(seq, np.int64)
        p = np.full(len(seq) - start, 1.0 / self.alphabet)
        for n, keys, mass, contexts, total, back in reversed(self.levels):
            g = self.grams(seq[start - n + 1:], n)
            ctx = g // self.alphabet
            at = np.minimum(np.searchsorted(contexts, ctx), len(contexts) - 1)
            known = contexts[at] == ctx
            hit = np.minimum(np.searchsorted(keys, g), len(keys) - 1)
            own = np.where(keys[hit] == g, mass[hit], 0.0) / total[at]
            p = np.where(known, own + back[at] * p, p)
        return float(-np.log2(p).sum())


def baseline(train, held, order, alphabet, bytes_held):
    lm = KneserNey(train, order, alphabet)
    # The held-out text is scored as if it continued the training text.
    return lm.bits(np.concatenate([train[-order:], held]), order) / bytes_held


# ------------------------------------------------------- training and scoring

def windows(ids):
    """Non-overlapping windows: BOS and then up to CONTEXT - 1 tokens, each of which
    is predicted, so every token (and so every byte) of the text counts once."""
    step = CONTEXT - 1
    return [np.concatenate([[BOS], ids[i:i + step]]) for i in range(0, len(ids), step)]


@torch.no_grad()
def total_nll(model, ids, batch=16):
    model.eval()
    total, rows = 0.0, windows(ids)
    for i in range(0, len(rows), batch):
        group = [r for r in rows[i:i + batch] if len(r) == CONTEXT]
        for part in ([np.stack(group)] if group else []) + \
                [r[None] for r in rows[i:i + batch] if len(r) < CONTEXT]:
            x = torch.from_numpy(part.astype(np.int64))
            logits = model(x[:, :-1])
            total += F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten(), reduction="sum").item()
    return total


def bits_per_byte(model, ids, n_bytes):
    return total_nll(model, ids) / math.log(2) / n_bytes


def batches(ids, batch, seed):
    rng, step = np.random.default_rng(seed), CONTEXT - 1
    while True:
        shift = rng.integers(step)  # another alignment each epoch
        starts = rng.permutation(np.arange(shift, len(ids) - step, step))
        for i in range(0, len(starts) - batch + 1, batch):
            rows = np.stack([ids[s:s + step] for s in starts[i:i + batch]])
            yield torch.from_numpy(np.concatenate([np.full((batch, 1), BOS), rows], 1).astype(np.int64))


class Muon:
    """Momentum whose update is made nearly orthogonal by Newton-Schulz steps (Jordan
    et al. 2024), for the matrices inside the blocks. It needs far fewer steps than
    AdamW on a model this small, and the steps are what costs here."""

    def __init__(self, params, rate, decay):
        self.params, self.rate, self.decay, self.scale = list(params), rate, decay, 1.0
        self.momentum = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        shapes = {}
        for p, m in zip(self.params, self.momentum):
            m.lerp_(p.grad, 0.05)
            shapes.setdefault(p.shape[-2:], []).append((p, p.grad.lerp(m, 0.95)))
        for (rows, columns), group in shapes.items():
            x = torch.cat([u.reshape(-1, rows, columns) for _, u in group])
            x = x.mT if rows > columns else x
            x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
            for _ in range(5):
                y = x @ x.mT
                x = 3.4445 * x + (-4.7750 * y + 2.0315 * y @ y) @ x
            x = (x.mT if rows > columns else x) * max(1.0, rows / columns) ** 0.5
            lr, at = self.rate * self.scale, 0
            for p, u in group:
                n = u.numel() // (rows * columns)
                p.mul_(1 - lr * self.decay).sub_(x[at:at + n].view(p.shape), alpha=lr)
                at += n


def train(model, ids, valid, valid_bytes, steps, rate, a, path, seed, best=float("inf")):
    named = model.named()
    inner = [k for k, p in named.items() if p.dim() > 1 and "embd" not in k and "inp" not in k]
    groups = [{"params": [p for k, p in named.items() if k not in inner and p.dim() > 1],
               "weight_decay": a.weight_decay},
              {"params": [p for p in named.values() if p.dim() == 1], "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)
    muon = Muon([named[k] for k in inner], a.muon_ratio * rate, a.weight_decay)
    warm, start, running = max(1, min(50, steps // 10)), time.time(), None
    feed = batches(ids, a.batch, seed)
    for step in range(steps):
        scale = min(1.0, (step + 1) / warm)
        if step >= warm:
            scale = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
        for g in opt.param_groups:
            g["lr"] = rate * scale
        muon.scale = scale
        model.train()
        x = next(feed)
        logits = model(x[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
        (loss + a.balance * model.balance if model.c["experts"] else loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        muon.step()
        model.zero_grad(set_to_none=True)
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if (step + 1) % a.every == 0 or step + 1 == steps:
            score = bits_per_byte(model, valid, valid_bytes)
            kept = score < best
            if kept:
                best = score
                torch.save({"config": model.c, "weights": model.named(), "step": step + 1,
                            "valid_bits_per_byte": score}, path + ".part")
                os.replace(path + ".part", path)
            balance = f" balance {float(model.balance) / model.c['layers']:.3f}" if model.c["experts"] else ""
            print(f"step {step + 1}/{steps} loss {running:.4f} valid {score:.4f} bits/byte"
                  f"{' kept' if kept else ''} {time.time() - start:.0f} s", flush=True)
    return best


def load(path):
    saved = torch.load(path)
    model = Tiny(saved["config"])
    with torch.no_grad():
        for name, p in model.named().items():
            p.copy_(saved["weights"][name])
    return model, saved


# ------------------------------------------------------------- GGUF in and out

def write_gguf(path, model, tokenizer, name, quantized):
    import gguf
    c, kind = model.c, gguf.GGMLQuantizationType
    w = gguf.GGUFWriter(path, "llama")
    w.add_custom_alignment(32)
    w.add_type("model")
    w.add_name(name)
    w.add_description("Trained on the King James Version, whose text is in the public domain; "
                      "made by tests/golden/train_tiny.py for tests and first steps.")
    w.add_license("public-domain")
    w.add_languages(["en"])
    w.add_context_length(c["context"])
    w.add_embedding_length(c["dim"])
    w.add_block_count(c["layers"])
    w.add_feed_forward_length(c["ff"])
    w.add_head_count(c["heads"])
    w.add_head_count_kv(c["kv_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_layer_norm_rms_eps(c["eps"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_freq_base(c["rope_base"])
    w.add_vocab_size(c["vocab"])
    if c["experts"]:
        w.add_expert_count(c["experts"])
        w.add_expert_used_count(c["active"])
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if quantized else gguf.LlamaFileType.MOSTLY_F16)
    if quantized:
        w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    tokens, scores, kinds = [], [], []
    for i in range(tokenizer.vocab_size()):
        tokens.append(tokenizer.id_to_piece(i).encode())
        scores.append(tokenizer.get_score(i))
        kinds.append(gguf.TokenType.UNKNOWN if tokenizer.is_unknown(i) else
                     gguf.TokenType.CONTROL if tokenizer.is_control(i) else
                     gguf.TokenType.BYTE if tokenizer.is_byte(i) else gguf.TokenType.NORMAL)
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(kinds)
    w.add_bos_token_id(BOS)
    w.add_eos_token_id(EOS)
    w.add_unk_token_id(UNK)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_add_space_prefix(True)
    for tensor, p in model.named().items():
        value = p.detach().float().numpy()
        # Norms and the router stay exact: they are small and decide much.
        if value.ndim == 1 or "gate_inp" in tensor:
            w.add_tensor(tensor, value)
        elif quantized:
            w.add_tensor(tensor, gguf.quants.quantize(value, kind.Q8_0), raw_dtype=kind.Q8_0)
        else:
            w.add_tensor(tensor, value.astype(np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def read_gguf(path, config):
    """The stored weights back as float32, so that what is measured is what ships."""
    import gguf
    model = Tiny(config)
    stored = {t.name: t for t in gguf.GGUFReader(path).tensors}
    assert set(stored) == set(model.named()), "unexpected tensors"
    with torch.no_grad():
        for name, p in model.named().items():
            t = stored[name]
            value = gguf.quants.dequantize(np.array(t.data), t.tensor_type)
            p.copy_(torch.from_numpy(np.array(value, np.float32)).view(p.shape))
    return model


@torch.no_grad()
def greedy(model, prompt, count):
    """Greedy continuation in float64; a small gap between the best two logits would
    make the next token depend on rounding, so the smallest one is reported."""
    model = model.double().eval()
    ids, gaps = list(prompt), []
    for _ in range(count):
        top = model(torch.tensor([ids]))[0, -1].topk(2)
        gaps.append(float(top.values[0] - top.values[1]))
        ids.append(int(top.indices[0]))
    model.float()
    return ids[len(prompt):], gaps


# --------------------------------------------------------------------- stages

PROMPTS = ["In the beginning", "And the LORD said unto", "Blessed are"]
STRINGS = [
    "", " ", "  ", "In the beginning", " In the beginning", "In the beginning God created the heaven "
    "and the earth.", "And God said, Let there be light: and there was light.", "a", "the", " the",
    "THE LORD", "unbelief", "Nebuchadnezzar king of Babylon", "Jesus wept.",
    "line one\nline two", "\n", "\n\n", "a\tb", "trailing space ", "two  spaces", "   three leading",
    "0123456789", "Psalms 119", "3.14159 + 2 = 5.14159", "hello_world(x) { return x[0]; }",
    "caf\u00e9", "na\u00efve \u00c6on", "\u65e5\u672c\u8a9e", "\u03b1\u03b2\u03b3 and \u05d0\u05d1\u05d2",
    "\U0001f30d\U0001f54a", "don't; won't -- can't?", "<s>", "<unk></s>", "<0x41>", "\u2581already",
    "zzzzzzzzzzzzzzzz", "supercalifragilisticexpialidocious", "e\u0301 combined", "(selah)",
    "Mahershalalhashbaz", "\u201cquoted\u201d \u2014 dash",
]


def prepare(a):
    train_text, valid_text, held_text = split_chapters(read_chapters())
    prefix = os.path.join(a.work, "tokenizer")
    if a.stage == "tokenizer" or not os.path.exists(prefix + ".model"):
        train_tokenizer(train_text, prefix)
    sp = spm.SentencePieceProcessor(model_file=prefix + ".model")
    assert sp.vocab_size() == VOCAB
    ids = [np.array(sp.encode(t), np.int64) for t in (train_text, valid_text, held_text)]
    size = [len(t.encode()) for t in (train_text, valid_text, held_text)]
    for name, n, i in zip(("train", "validation", "held-out"), size, ids):
        print(f"{name}: {n} bytes, {len(i)} tokens, {n / len(i):.3f} bytes/token", flush=True)
    return sp, (train_text, valid_text, held_text), ids, size


def export(a, sp, texts, ids, size):
    os.makedirs(a.models_dir, exist_ok=True)
    os.makedirs(a.data_dir, exist_ok=True)
    raw = [np.frombuffer(t.encode(), np.uint8) for t in texts]
    # Whole chapters from the start of the held-out text, as many as fit in 16 KiB.
    sample, small = "", ""
    for chapter in re.findall(r".*?\n\n", texts[2], re.S):
        if len((sample + chapter).encode()) > 16384:
            break
        sample += chapter
    for line in sample.splitlines(keepends=True):
        if len((small + line).encode()) > 2048:
            break
        small += line
    with open(os.path.join(a.data_dir, "held_out.txt"), "w", newline="\n") as f:
        f.write(sample)

    facts = {
        "about": "Measured by tests/golden/train_tiny.py from the stored weights; float32, "
                 "except the greedy continuations, which are float64.",
        "text": {
            "source": "King James Version from Debian's package bible-kjv-text",
            "split": "chapters counted from 0: % 20 == 19 held out, % 20 == 9 validation, rest training",
            "bytes": dict(zip(("train", "validation", "held_out"), size)),
            "tokens": dict(zip(("train", "validation", "held_out"), map(len, ids))),
        },
        "window": {"context": CONTEXT, "rule": "non-overlapping: BOS, then up to 255 tokens, each "
                   "predicted; the text is tokenized as one string; nats are summed over all tokens"},
        "baseline_bits_per_byte": {
            "byte_5gram_kneser_ney": baseline(raw[0], raw[2], 5, 256, size[2]),
            "byte_7gram_kneser_ney": baseline(raw[0], raw[2], 7, 256, size[2]),
            "token_3gram_kneser_ney": baseline(ids[0], ids[2], 3, VOCAB, size[2]),
            "token_5gram_kneser_ney": baseline(ids[0], ids[2], 5, VOCAB, size[2]),
        },
        "models": {},
    }
    print("baselines", json.dumps(facts["baseline_bits_per_byte"]), flush=True)

    held = {}
    for key, text in (("held_out.txt", sample), ("held_out.txt first lines", small)):
        held[key] = (np.array(sp.encode(text), np.int64), len(text.encode()))
    plan = [("tiny", "dense", "tiny.gguf", "tern tiny", False),
            ("tiny-moe", "moe", "tiny-moe.gguf", "tern tiny moe", True)]
    for key, stem, file, name, quantized in plan:
        checkpoint = os.path.join(a.work, stem + ".pt")
        if not os.path.exists(checkpoint):
            print(f"no checkpoint for {key}: left out", flush=True)
            continue
        model, saved = load(checkpoint)
        path = os.path.join(a.models_dir, file)
        write_gguf(path, model, sp, name, quantized)
        stored = read_gguf(path, model.c)
        params = sum(p.numel() for p in model.parameters())
        entry = {
            "file": "examples/data/" + file, "stored_as": "q8_0" if quantized else "f16",
            "file_bytes": os.path.getsize(path), "parameters": params, "config": model.c,
            "checkpoint_step": saved["step"], "validation_bits_per_byte": saved["valid_bits_per_byte"],
            "held_out_bits_per_byte": bits_per_byte(stored, ids[2], size[2]),
            "texts": {}, "greedy": [],
        }
        if model.c["experts"]:
            unused = (model.c["experts"] - model.c["active"]) * 3 * model.c["dim"] * model.c["ff"]
            entry["active_parameters"] = params - unused * model.c["layers"]
        for text, (tokens, n) in held.items():
            nats = total_nll(stored, tokens)
            entry["texts"][text] = {"bytes": n, "tokens": len(tokens), "total_nats": nats,
                                    "mean_nats_per_token": nats / len(tokens),
                                    "bits_per_byte": nats / math.log(2) / n}
        for prompt in PROMPTS:
            start = [BOS] + sp.encode(prompt)
            tokens, gaps = greedy(stored, start, 40)
            entry["greedy"].append({
                "prompt": prompt, "prompt_ids": start, "token_ids": tokens,
                "text": sp.decode(tokens), "smallest_gap": min(gaps),
                "smallest_gap_at": gaps.index(min(gaps))})
        facts["models"][key] = entry
        print(key, json.dumps({k: v for k, v in entry.items() if k != "config"}, indent=1), flush=True)

    facts["held_out_sample"] = {
        "file": "tests/data/held_out.txt", "bytes": len(sample.encode()),
        "first_lines_bytes": len(small.encode()), "token_ids_of_first_lines": sp.encode(small)}
    facts["tokenizer"] = {
        "library": f"sentencepiece {spm.__version__}", "vocab": VOCAB, "bos": BOS, "eos": EOS, "unk": UNK,
        "note": "ids without BOS; marks such as <s> are plain text here, not special tokens",
        "cases": [{"text": s, "ids": sp.encode(s), "decoded": sp.decode(sp.encode(s))} for s in STRINGS]}
    with open(os.path.join(a.data_dir, "tiny.json"), "w") as f:
        text = json.dumps(facts, indent=1, ensure_ascii=True)
        # Lists of numbers read better on one line.
        text = re.sub(r"\[\s+((?:-?\d+,\s+)*-?\d+)\s+\]",
                      lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
        f.write(text + "\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stage", choices=["all", "tokenizer", "baseline", "dense", "moe", "export"], default="all",
                   help="one step, or all of them in order (default)")
    p.add_argument("--work", required=True, help="folder for the tokenizer and the checkpoints")
    p.add_argument("--models-dir", default=os.path.join(root, "examples", "data"))
    p.add_argument("--data-dir", default=os.path.join(root, "tests", "data"))
    p.add_argument("--steps", type=int, default=1400, help="steps for the dense model")
    p.add_argument("--moe-steps", type=int, default=400, help="steps of one round for the mixture")
    p.add_argument("--moe-rounds", type=int, default=2,
                   help="rounds for the mixture: the rate rises and falls again in each")
    p.add_argument("--moe-first", type=int, default=1, help="round to start with; others than 1 need moe.pt")
    p.add_argument("--batch", type=int, default=4, help="windows of 256 tokens per step")
    p.add_argument("--rate", type=float, default=8e-3, help="peak learning rate, dense model")
    p.add_argument("--moe-rate", type=float, default=8e-4, help="peak learning rate, mixture")
    p.add_argument("--muon-ratio", type=float, default=4.0,
                   help="rate of the blocks' matrices (Muon) over that of the rest (AdamW)")
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--balance", type=float, default=0.01, help="weight of the load-balancing loss")
    p.add_argument("--every", type=int, default=350, help="steps between validations")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seed", type=int, default=1611)
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    began = time.time()
    sp, texts, ids, size = prepare(a)
    if a.stage == "baseline":
        raw = [np.frombuffer(t.encode(), np.uint8) for t in texts]
        for n in (3, 4, 5, 6, 7):
            print(f"byte {n}-gram {baseline(raw[0], raw[2], n, 256, size[2]):.4f} bits/byte")
        for n in (2, 3, 4, 5):
            print(f"token {n}-gram {baseline(ids[0], ids[2], n, VOCAB, size[2]):.4f} bits/byte")
    dense, moe = os.path.join(a.work, "dense.pt"), os.path.join(a.work, "moe.pt")
    if a.stage in ("all", "dense"):
        train(Tiny(CONFIG), ids[0], ids[1], size[1], a.steps, a.rate, a, dense, a.seed)
    if a.stage in ("all", "moe"):
        for n in range(a.moe_first, a.moe_rounds + 1):
            torch.manual_seed(a.seed + n)
            if n == 1:
                model, best = upcycle(load(dense)[0], a.seed), float("inf")
            else:
                model, saved = load(moe)
                best = saved["valid_bits_per_byte"]
            train(model, ids[0], ids[1], size[1], a.moe_steps, a.moe_rate, a, moe, a.seed + n, best)
    if a.stage in ("all", "export"):
        export(a, sp, texts, ids, size)
    print(f"done in {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
