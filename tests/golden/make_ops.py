#!/usr/bin/env python3
"""Golden values of single operators, from the functions of Hugging Face transformers themselves (f32, CPU).

Writes ../data/ops.json. Every array is flat, row-major, with its shape in the same case; numbers have nine
digits, so an f32 survives. Groups:
  rope       x [positions][heads][dim] rotated at each position; `layout` half (i, i + rot/2) or adjacent
             (2i, 2i + 1); inv_freq after scaling, `scale` multiplies cos and sin; llama3 has `factors`, the
             divisors of the unscaled frequencies that GGUF stores as rope_freqs.weight
  attention  q [q_tokens][heads][dim], k and v [kv_tokens][kv_heads][dim]; the queries are the last q_tokens
             positions; window counts the position itself; softcap is applied to scaled scores before the
             mask; sinks [heads] is one more logit per head whose probability is dropped
  router     logits [tokens][experts] to the ids of the best and their weights, best first
  sampling   logits [vocab] to probabilities, 0 for a token that was removed
  norm, unary, gated   elementwise and row-wise
"""
import json
import os
import re

import numpy as np
import torch
import transformers
from transformers import LlamaConfig, MixtralConfig, Qwen3MoeConfig, GptOssConfig
from transformers.activations import ACT2FN
from transformers.generation import logits_process as lp
from transformers.models.cohere import modeling_cohere as cohere
from transformers.models.gemma2 import modeling_gemma2 as gemma2
from transformers.models.gemma3 import modeling_gemma3 as gemma3
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
from transformers.models.llama import modeling_llama as llama
from transformers.models.mixtral import modeling_mixtral as mixtral
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "ops.json")
rng = np.random.default_rng(7)


def normal(*shape, scale=1.0):
    return torch.from_numpy((scale * rng.standard_normal(shape)).astype(np.float32))


def flat(t):
    return [float(f"{x:.9g}") for x in np.asarray(t.detach() if torch.is_tensor(t) else t, dtype=np.float32).reshape(-1)]


SCALINGS = {
    "none": {"rope_type": "default", "rope_theta": 10000.0},
    "none_500k": {"rope_type": "default", "rope_theta": 500000.0},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    "llama3": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 512},
    "yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 512},
    "yarn_betas": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 16.0, "beta_slow": 2.0,
                   "original_max_position_embeddings": 1024},
}


def rope_cases():
    cases = []
    positions = [0, 1, 7, 100, 1000]
    for name, r in SCALINGS.items():
        for layout in ["half", "adjacent"]:
            for dim, rot in [(16, 16)] + ([(12, 8)] if name == "none" else []):
                heads = 2
                config = LlamaConfig(hidden_size=heads * rot, num_attention_heads=heads, head_dim=rot,
                                     max_position_embeddings=4096, rope_parameters=dict(r))
                emb = llama.LlamaRotaryEmbedding(config)
                x = normal(len(positions), heads, dim)
                q = x[..., :rot].transpose(0, 1)[None]  # [1][heads][positions][rot]
                cos, sin = emb(q, torch.tensor([positions]))
                if layout == "adjacent":
                    half = rot // 2
                    cos, sin = (t[..., :half].repeat_interleave(2, dim=-1) for t in (cos, sin))
                    y, _ = cohere.apply_rotary_pos_emb(q, q, cos, sin)
                else:
                    y, _ = llama.apply_rotary_pos_emb(q, q, cos, sin)
                y = torch.cat([y[0].transpose(0, 1), x[..., rot:]], dim=-1)
                case = {"name": f"{name}_{layout}" + ("" if rot == dim else "_partial"), "layout": layout,
                        "heads": heads, "dim": dim, "rot": rot, "positions": positions, "scaling": r,
                        "inv_freq": flat(emb.inv_freq), "scale": float(emb.attention_scaling),
                        "x": flat(x), "y": flat(y)}
                if r["rope_type"] == "llama3":
                    unscaled = 1.0 / (r["rope_theta"] ** (torch.arange(0, rot, 2, dtype=torch.float32) / rot))
                    case["factors"] = flat(unscaled / emb.inv_freq)
                cases.append(case)
    return cases


class Attention:
    """What the eager functions read from their module."""
    training = False

    def __init__(self, groups, dim, sinks=None):
        self.num_key_value_groups, self.head_dim, self.sinks = groups, dim, sinks


def attention_cases():
    cases = []
    for name, heads, kv, dim, q_tokens, kv_tokens, window, softcap, sinks, scale in [
        ("prefill", 2, 2, 8, 6, 6, 0, 0, False, None),
        ("one_token_alone", 2, 1, 8, 1, 1, 0, 0, False, None),
        ("gqa_after_past", 4, 2, 8, 3, 8, 0, 0, False, None),
        ("mqa_decode", 4, 1, 8, 1, 9, 0, 0, False, None),
        ("window", 4, 2, 8, 10, 10, 4, 0, False, None),
        ("window_decode", 4, 2, 8, 1, 10, 4, 0, False, None),
        ("window_longer_than_context", 2, 2, 8, 5, 5, 64, 0, False, None),
        ("softcap", 4, 2, 8, 6, 6, 0, 2.0, False, None),
        ("softcap_window_scale", 4, 2, 8, 6, 9, 3, 2.0, False, 0.5),
        ("sinks", 4, 2, 8, 6, 6, 0, 0, True, None),
        ("sinks_window_decode", 4, 2, 8, 1, 10, 4, 0, True, None),
        ("large_scores", 2, 1, 8, 4, 4, 0, 0, False, 40.0),
    ]:
        q, k, v = normal(q_tokens, heads, dim, scale=1.5), normal(kv_tokens, kv, dim, scale=1.5), normal(kv_tokens, kv, dim)
        at = torch.arange(kv_tokens - q_tokens, kv_tokens)[:, None]
        keys = torch.arange(kv_tokens)[None]
        seen = (keys <= at) & ((at - keys < window) if window else torch.ones(1, 1, dtype=torch.bool))
        mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]
        s = normal(heads) if sinks else None
        scaling = scale if scale is not None else dim ** -0.5
        batch = [t.transpose(0, 1)[None] for t in (q, k, v)]
        module = Attention(heads // kv, dim, s)
        if sinks:
            y, _ = gpt_oss.eager_attention_forward(module, *batch, mask, scaling=scaling)
        else:
            y, _ = gemma2.eager_attention_forward(module, *batch, mask, scaling=scaling, softcap=softcap or None)
        case = {"name": name, "heads": heads, "kv_heads": kv, "dim": dim, "q_tokens": q_tokens, "kv_tokens": kv_tokens,
                "window": window, "softcap": softcap, "scale": scaling, "q": flat(q), "k": flat(k), "v": flat(v),
                "y": flat(y[0])}
        if sinks:
            case["sinks"] = flat(s)
        cases.append(case)
    return cases


def router_cases():
    cases = []
    for name, experts, used, tokens in [("8_of_2", 8, 2, 5), ("16_of_4", 16, 4, 4), ("4_of_1", 4, 1, 3), ("4_of_4", 4, 4, 3)]:
        x = normal(tokens, experts, scale=2.0)
        identity = torch.eye(experts)
        for kind, router in {
            "softmax_topk_renormalised": mixtral.MixtralTopKRouter(MixtralConfig(
                hidden_size=experts, num_local_experts=experts, num_experts_per_tok=used)),
            "softmax_topk": qwen3_moe.Qwen3MoeTopKRouter(Qwen3MoeConfig(
                hidden_size=experts, num_experts=experts, num_experts_per_tok=used, norm_topk_prob=False)),
            "topk_softmax": gpt_oss.GptOssTopKRouter(GptOssConfig(
                hidden_size=experts, num_local_experts=experts, num_experts_per_tok=used)),
        }.items():
            router.weight.data = identity.clone()  # so that the input is the logits
            if hasattr(router, "bias"):
                router.bias.data.zero_()
            _, weights, ids = router(x)
            cases.append({"name": f"{kind}_{name.replace('_of_', '_experts_best_')}", "kind": kind, "tokens": tokens,
                          "experts": experts, "used": used, "logits": flat(x), "ids": ids.reshape(-1).tolist(),
                          "weights": flat(weights)})
    return cases


def sampling_cases():
    vocab = 32
    x = normal(1, vocab, scale=2.5)
    past = torch.tensor([[3, 3, 17, 30]])
    chains = {
        "plain": [],
        "temperature_0.7": [("temperature", 0.7, lp.TemperatureLogitsWarper(0.7))],
        "temperature_1.5": [("temperature", 1.5, lp.TemperatureLogitsWarper(1.5))],
        "top_k_5": [("top_k", 5, lp.TopKLogitsWarper(5))],
        "top_k_more_than_vocab": [("top_k", 100, lp.TopKLogitsWarper(100))],
        "top_p_0.8": [("top_p", 0.8, lp.TopPLogitsWarper(0.8))],
        "top_p_0.05_keeps_one": [("top_p", 0.05, lp.TopPLogitsWarper(0.05))],
        "min_p_0.1": [("min_p", 0.1, lp.MinPLogitsWarper(0.1))],
        "repetition_1.3": [("repetition_penalty", 1.3, lp.RepetitionPenaltyLogitsProcessor(1.3))],
        "temperature_top_k_top_p": [("temperature", 0.8, lp.TemperatureLogitsWarper(0.8)),
                                    ("top_k", 10, lp.TopKLogitsWarper(10)), ("top_p", 0.9, lp.TopPLogitsWarper(0.9))],
    }
    cases = []
    for name, chain in chains.items():
        y = x.clone()
        for _, _, process in chain:
            y = process(past, y)
        cases.append({"name": name, "steps": [{"what": w, "value": v} for w, v, _ in chain], "past": past[0].tolist(),
                      "logits": flat(x), "probabilities": flat(torch.softmax(y, -1))})
    return cases


def norm_cases():
    cases = []
    x = normal(4, 24)
    x[1] *= 1e-3  # here epsilon matters
    x[2] *= 100.0
    x[3] = 0.0
    for eps in [1e-5, 1e-6]:
        for name, norm, plus in [("rms", llama.LlamaRMSNorm(24, eps), 0), ("rms_one_plus_weight", gemma3.Gemma3RMSNorm(24, eps), 1)]:
            norm.weight.data = normal(24, scale=0.3) + (0 if plus else 1)
            cases.append({"name": f"{name}_{eps:g}", "one_plus_weight": bool(plus), "rows": 4, "dim": 24, "eps": eps,
                          "x": flat(x), "weight": flat(norm.weight), "y": flat(norm(x))})
    return cases


def unary_cases():
    x = torch.cat([torch.linspace(-12, 12, 49), torch.tensor([-100.0, -30.0, -1e-4, 1e-4, 30.0, 100.0])])
    cases = [{"name": n, "x": flat(x), "y": flat(ACT2FN[f](x))}
             for n, f in [("gelu_tanh", "gelu_pytorch_tanh"), ("gelu_erf", "gelu"), ("silu", "silu")]]
    for cap in [30.0, 5.0]:
        cases.append({"name": f"softcap_{cap:g}", "cap": cap, "x": flat(x), "y": flat(torch.tanh(x / cap) * cap)})
    rows = torch.stack([normal(16), normal(16, scale=50.0), torch.full((16,), 3.0), normal(16) + 1e4])
    cases.append({"name": "softmax", "rows": 4, "dim": 16, "x": flat(rows), "y": flat(torch.softmax(rows, -1))})
    return cases


def gated_cases():
    gate, up = normal(48, scale=4.0), normal(48, scale=4.0)
    cases = [{"name": n, "gate": flat(gate), "up": flat(up), "y": flat(ACT2FN[f](gate) * up)}
             for n, f in [("swiglu", "silu"), ("geglu_tanh", "gelu_pytorch_tanh")]]
    g, u = gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)  # gpt-oss: alpha 1.702, limit 7
    cases.append({"name": "swiglu_clamped", "alpha": 1.702, "limit": 7.0, "gate": flat(gate), "up": flat(up),
                  "y": flat((u + 1) * g * torch.sigmoid(1.702 * g))})
    return cases


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with torch.no_grad():
        data = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
                "rope": rope_cases(), "attention": attention_cases(), "router": router_cases(),
                "sampling": sampling_cases(), "norm": norm_cases(), "unary": unary_cases(), "gated": gated_cases()}
    text = json.dumps(data, indent=1)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda m: re.sub(r"\s+", "", m.group(0)), text)  # an array a line
    with open(OUT, "w") as f:
        f.write(text + "\n")
    print({k: len(v) for k, v in data.items() if isinstance(v, list)}, os.path.getsize(OUT), "bytes")


if __name__ == "__main__":
    main()
