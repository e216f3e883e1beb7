#!/usr/bin/env python3
"""Golden logits: tiny random decoders run by Hugging Face transformers, and the same weights as GGUF.

Writes into ../data/logits, for each model:
  NAME.gguf   all tensors f32 (gpt-oss: see FORMATS), with the metadata keys, tensor names and conventions
              of llama.cpp's converter; instead of a tokenizer `tokenizer.ggml.model` is "no_vocab" and
              ARCH.vocab_size gives the number of logits
  NAME.f32    [28 x vocab] f32: a prompt of 20 tokens in one go, then 8 given tokens one at a time
              through the KV cache; of a name in LONG a prompt of 44 and 8 tokens, of the same model
  index.json  tokens, sizes, seeds, versions

Run on the CPU in f32 with eager attention. Weights that are stored in blocks are rounded first, so the
logits are those of the stored numbers. check_logits.py runs the same files through llama.cpp.
"""
import importlib.metadata
import json
import os
import re

import gguf
import numpy as np
import torch
import transformers
from transformers import (AutoModelForCausalLM, Gemma3TextConfig, GptOssConfig, LlamaConfig, MixtralConfig, Qwen2Config,
                          Qwen3Config, Qwen3MoeConfig)

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "logits")
PROMPT, DECODE, VOCAB = 20, 8, 128
LONG = {"gpt_oss": ("gpt_oss_long", 44)}  # a second prompt of the same file: its name and length


def base(hidden=32, ff=48, layers=2, heads=4, kv=2, head_dim=16, context=256, tied=False, **more):
    return dict(vocab_size=VOCAB, hidden_size=hidden, intermediate_size=ff, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim,
                max_position_embeddings=context, tie_word_embeddings=tied, pad_token_id=None, bos_token_id=None,
                eos_token_id=None, **more)


def rope(kind, theta, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


# gemma3: layers 0-4 and 6 slide over 8 positions, layer 5 sees all. query_pre_attn_scalar has no key in
# GGUF: readers use head_dim, so the two are equal here.
def gemma3(full, **more):
    return Gemma3TextConfig(**base(layers=7, kv=1, context=512, tied=True), sliding_window=8, query_pre_attn_scalar=16,
                            rope_parameters={"sliding_attention": rope("default", 10000.0), "full_attention": full},
                            **more)


# gpt-oss: even layers slide over 6 positions, and the prompts go beyond yarn's original context of 16.
def gpt_oss(theta, experts, used, **more):
    return GptOssConfig(**base(64, 64, context=128, **more), num_local_experts=experts, num_experts_per_tok=used,
                        sliding_window=6, rope_parameters=rope(
                            "yarn", theta, factor=8.0, beta_fast=2.0, beta_slow=1.0, truncate=False,
                            original_max_position_embeddings=16))


# name: (architecture in GGUF, config)
MODELS = {
    "llama_tied": ("llama", LlamaConfig(**base(64, 96, tied=True), rope_parameters=rope("default", 10000.0),
                                        rms_norm_eps=1e-5)),
    # one kv head, sizes that are no multiple of 32
    "llama_untied": ("llama", LlamaConfig(**base(48, 80, kv=1, head_dim=12), rms_norm_eps=1e-6,
                                          rope_parameters=rope("default", 500000.0))),
    # the wavelengths of the 8 frequencies lie on both sides of and between 64/4 and 64/1
    "llama_rope_llama3": ("llama", LlamaConfig(**base(context=512), rope_parameters=rope(
        "llama3", 10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))),
    "llama_rope_linear": ("llama", LlamaConfig(**base(), rope_parameters=rope("linear", 10000.0, factor=4.0))),
    "llama_rope_yarn": ("llama", LlamaConfig(**base(context=1024), rope_parameters=rope(
        "yarn", 10000.0, factor=4.0, original_max_position_embeddings=256))),
    # a Mixtral
    "llama_moe": ("llama", MixtralConfig(**base(), num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
                                         rope_parameters=rope("default", 1000000.0))),
    "qwen2": ("qwen2", Qwen2Config(**{k: v for k, v in base(tied=True, head_dim=8).items() if k != "head_dim"},
                                   rope_parameters=rope("default", 1000000.0))),
    "qwen3": ("qwen3", Qwen3Config(**base(layers=3), rope_parameters=rope("default", 1000000.0))),
    "qwen3moe": ("qwen3moe", Qwen3MoeConfig(**base(), num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
                                            norm_topk_prob=True, rope_parameters=rope("default", 1000000.0))),
    # The converter writes no key for norm_topk_prob and llama.cpp always renormalises this architecture,
    # so this one file carries `qwen3moe.expert_weights_norm` = false, which llama.cpp does not read here.
    "qwen3moe_unnormed": ("qwen3moe", Qwen3MoeConfig(**base(), num_experts=4, num_experts_per_tok=2,
                                                     moe_intermediate_size=32, norm_topk_prob=False,
                                                     rope_parameters=rope("default", 1000000.0))),
    "gemma3": ("gemma3", gemma3(rope("default", 1000000.0))),
    "gemma3_softcap": ("gemma3", gemma3(rope("linear", 1000000.0, factor=8.0), final_logit_softcapping=5.0)),
    # The ramp of yarn begins and ends between the first two pairs: to round its bounds changes nothing.
    "gpt_oss": ("gpt-oss", gpt_oss(150000.0, 8, 4, layers=4)),
    # It goes from 0.84 to 3.25. The model's bounds are not rounded; GGUF has no key for that, and llama.cpp rounds.
    "gpt_oss_ramp": ("gpt-oss", gpt_oss(10.0, 4, 2)),
}
SEEDS = {"gpt_oss": 119, "gpt_oss_ramp": 116}  # others come too close to another choice of experts
# what llama.cpp cannot express
NOT_LLAMA_CPP = {"qwen3moe_unnormed", "gpt_oss_ramp"}
# gpt-oss: how tensors are stored, by the end of their name; all others are f32
Q = gguf.GGMLQuantizationType
FORMATS = {"_exps.weight": Q.MXFP4, "attn_q.weight": Q.Q8_0, "attn_k.weight": Q.BF16, "attn_output.weight": Q.Q8_0,
           "token_embd.weight": Q.Q8_0}
# files made before the converter knew the key rely on the default of 10000 for sliding layers
WITHOUT_FREQ_BASE_SWA = {"gemma3_softcap"}


def randomise(model, seed, gemma):
    """Weights large enough that logits vary by several units; norm weights too, so that they matter."""
    rng = np.random.default_rng(seed)
    names = {name for name, _ in model.named_parameters()}
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            w = rng.standard_normal(p.shape)
            hidden = p.shape[-1]
            if name.endswith("norm.weight"):
                w = 0.3 * w + (0.0 if gemma else 1.0)
            elif name.endswith(("bias", "sinks")):
                w = 0.5 * w
            elif name.endswith("experts.gate_up_proj") and name.replace("_proj", "_proj_bias") in names:
                w = 3.0 / np.sqrt(p.shape[1]) * w  # gpt-oss: some beyond its limit of 7
            elif name.endswith("experts.down_proj") and name.replace("_proj", "_proj_bias") in names:
                w = 0.2 / np.sqrt(p.shape[1]) * w
            elif "embed_tokens" in name or "lm_head" in name:
                w = 3.0 / np.sqrt(hidden) * w
            elif name.endswith(("mlp.gate.weight", "mlp.router.weight")):
                w = 2.0 / np.sqrt(hidden) * w  # router
            else:
                w = 1.3 / np.sqrt(hidden) * w
            p.copy_(torch.from_numpy(w.astype(np.float32)))


def permute(w, heads):
    """Rows of q and k, from rotating (i, i + half) to rotating (2i, 2i + 1)."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def llama3_factors(r, dim):
    """What rope_freqs.weight holds: the divisor of each frequency."""
    out = []
    for freq in (1.0 / (r["rope_theta"] ** (np.arange(0, dim, 2, dtype=np.float32) / dim))).astype(np.float32):
        wavelength = 2 * np.pi / freq
        original, low, high, factor = (r["original_max_position_embeddings"], r["low_freq_factor"],
                                       r["high_freq_factor"], r["factor"])
        if wavelength < original / high:
            out.append(1.0)
        elif wavelength > original / low:
            out.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            out.append(1.0 / ((1 - smooth) / factor + smooth))
    return np.array(out, dtype=np.float32)


RENAME = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
}
RENAME_GEMMA = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                "post_feedforward_layernorm": "post_ffw_norm"}
RENAME_ARCH = {"gemma3": RENAME_GEMMA, "gpt-oss": {"post_attention_layernorm": "post_attention_norm"}}


def tensors(arch, config, model):
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    for name, p in model.named_parameters():
        w = p.detach().numpy()
        if arch == "gemma3" and name.endswith("norm.weight"):
            w = w + np.float32(1.0)  # stored ready to multiply with
        if name == "model.embed_tokens.weight":
            yield "token_embd.weight", w
        elif name == "model.norm.weight":
            yield "output_norm.weight", w
        elif name == "lm_head.weight":
            yield "output.weight", w
        else:
            _, _, layer, rest = name.split(".", 3)
            if arch == "gpt-oss" and rest.startswith("mlp.experts."):
                # [experts, in, out] with gate and up in turns
                kind = "bias" if rest.endswith("bias") else "weight"
                w = w if kind == "bias" else w.swapaxes(1, 2)
                if "gate_up" in rest:
                    yield f"blk.{layer}.ffn_gate_exps.{kind}", w[:, ::2]
                    yield f"blk.{layer}.ffn_up_exps.{kind}", w[:, 1::2]
                else:
                    yield f"blk.{layer}.ffn_down_exps.{kind}", w
            elif rest == "self_attn.sinks":
                yield f"blk.{layer}.attn_sinks.weight", w
            elif rest == "mlp.experts.gate_up_proj":
                half = w.shape[1] // 2
                yield f"blk.{layer}.ffn_gate_exps.weight", w[:, :half]
                yield f"blk.{layer}.ffn_up_exps.weight", w[:, half:]
            elif rest == "mlp.experts.down_proj":
                yield f"blk.{layer}.ffn_down_exps.weight", w
            else:
                part, kind = rest.rsplit(".", 1)
                if arch == "llama" and part == "self_attn.q_proj":
                    w = permute(w, heads)
                if arch == "llama" and part == "self_attn.k_proj":
                    w = permute(w, kv)
                new = RENAME_ARCH.get(arch, {}).get(part) or RENAME[part]
                yield f"blk.{layer}.{new}.{kind}", w
    r = config.rope_parameters
    if r.get("rope_type") == "llama3":
        yield "rope_freqs.weight", llama3_factors(r, config.head_dim)


def format_of(arch, key):
    return next((f for end, f in FORMATS.items() if arch == "gpt-oss" and key.endswith(end)), Q.F32)


def round_weights(arch, config, model):
    """Each weight becomes what its format holds of it. The tensors are views of the model's memory."""
    for key, value in tensors(arch, config, model):
        if (kind := format_of(arch, key)) != Q.F32:
            value[...] = gguf.quants.dequantize(gguf.quants.quantize(np.ascontiguousarray(value), kind), kind)


def write_gguf(path, name, arch, config, model):
    w = gguf.GGUFWriter(path, arch)
    w.add_type("model")
    w.add_name(name)
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    r = config.rope_parameters
    full = r.get("full_attention", r)
    if full["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(full["factor"])
    elif full["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(full["factor"])
        w.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
        if "beta_fast" in full:
            w.add_rope_scaling_yarn_beta_fast(full["beta_fast"])
            w.add_rope_scaling_yarn_beta_slow(full["beta_slow"])
    w.add_rope_freq_base(full["rope_theta"])
    if "sliding_attention" in r and name not in WITHOUT_FREQ_BASE_SWA:
        w.add_rope_freq_base_swa(r["sliding_attention"]["rope_theta"])
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if experts:
        w.add_expert_count(experts)
        w.add_expert_used_count(config.num_experts_per_tok)
    if getattr(config, "head_dim", None) is not None:
        w.add_key_length(config.head_dim)
        w.add_value_length(config.head_dim)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_MXFP4_MOE if arch == "gpt-oss" else gguf.LlamaFileType.ALL_F32)
    if arch == "llama":
        w.add_rope_dimension_count(config.head_dim)
    if arch == "qwen3moe":
        w.add_expert_feed_forward_length(config.moe_intermediate_size)
        if not config.norm_topk_prob:
            w.add_expert_weights_norm(False)
    if arch == "gpt-oss":
        w.add_expert_feed_forward_length(config.intermediate_size)
        w.add_sliding_window(config.sliding_window)
    if arch == "gemma3":
        if config.final_logit_softcapping:
            w.add_final_logit_softcapping(config.final_logit_softcapping)
        w.add_sliding_window(config.sliding_window)
    w.add_vocab_size(config.vocab_size)
    w.add_tokenizer_model("no_vocab")
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, value in tensors(arch, config, model):
        value, kind = np.ascontiguousarray(value, dtype=np.float32), format_of(arch, key)
        if kind == Q.F32:
            w.add_tensor(key, value)
            continue
        raw = gguf.quants.quantize(value, kind)
        assert np.array_equal(gguf.quants.dequantize(raw, kind), value), f"{key} was not rounded"
        w.add_tensor(key, raw, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def router_margin(model, tokens, used):
    """How far apart, at the closest, are the last expert chosen and the first not chosen."""
    margins = []

    def hook(_, __, out):
        p = torch.sort(torch.softmax(out[0].reshape(-1, out[0].shape[-1]), -1), descending=True).values
        margins.append((p[:, used - 1] - p[:, used]).min().item())

    handles = [m.register_forward_hook(hook) for n, m in model.named_modules() if n.endswith(("mlp.gate", "mlp.router"))]
    model(torch.tensor([tokens]))
    for h in handles:
        h.remove()
    return min(margins)


def run(name, arch, config, model, seed, prompt, number=1):
    """The logits of a prompt and of the tokens after it, and the entry of the index. `number` is the prompt's."""
    tokens = np.random.default_rng(seed + 1000 * number).integers(0, VOCAB, prompt + DECODE).tolist()
    with torch.no_grad():
        out = model(torch.tensor([tokens[:prompt]]), use_cache=True)
        rows = [out.logits[0]]
        for t in tokens[prompt:]:
            out = model(torch.tensor([[t]]), past_key_values=out.past_key_values, use_cache=True)
            rows.append(out.logits[0])
        logits = torch.cat(rows).numpy()
        whole = model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()
        cached = float(np.abs(whole - logits).max())
        if cached > 2e-4:
            raise SystemExit(f"{name}: decoding with and without the cache differs by {cached}")
        entry = {"architecture": arch, "seed": seed, "vocab": VOCAB, "prompt": prompt, "decode": DECODE,
                 "tokens": tokens, "tokenizer": "no_vocab", "llama_cpp": name not in NOT_LLAMA_CPP}
        if hasattr(config, "num_experts_per_tok"):
            entry["router_margin"] = round(router_margin(model, tokens, config.num_experts_per_tok), 6)
            if entry["router_margin"] < 1e-4:
                raise SystemExit(f"{name}: a choice of expert is too close to call; take another seed")
    logits.astype("<f4").tofile(os.path.join(OUT, name + ".f32"))
    print(f"{name}: logits {logits.min():.2f} .. {logits.max():.2f}, std {logits.std():.2f}, "
          f"with and without cache {cached:.1e}, router margin {entry.get('router_margin')}")
    return entry


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    os.makedirs(OUT, exist_ok=True)
    index = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
             "gguf": importlib.metadata.version("gguf"), "models": {}}
    for number, (name, (arch, config)) in enumerate(MODELS.items()):
        seed = SEEDS.get(name, 100 + number)
        config._attn_implementation = "eager"
        model = AutoModelForCausalLM.from_config(config).eval().float()
        randomise(model, seed, arch == "gemma3")
        round_weights(arch, config, model)
        index["models"][name] = run(name, arch, config, model, seed, PROMPT)
        if name in LONG:
            second, prompt = LONG[name]
            index["models"][second] = {"file": name} | run(second, arch, config, model, seed, prompt, 2)
        write_gguf(os.path.join(OUT, name + ".gguf"), name, arch, config, model)
        print(f"  {os.path.getsize(os.path.join(OUT, name + '.gguf'))} bytes")
    lines = json.dumps(index, indent=1)
    lines = re.sub(r"\[[\d,\s]+\]", lambda m: re.sub(r"\s+", " ", m.group(0)), lines)
    with open(os.path.join(OUT, "index.json"), "w") as f:
        f.write(lines + "\n")


if __name__ == "__main__":
    main()
