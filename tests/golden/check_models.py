#!/usr/bin/env python3
"""Checks the descriptions of language models that tern prices without their weights.

    check_models.py [--root FOLDER] [FILE ...]

Without files it reads examples/models/*.json and holds the table in docs/models.md against them. Each description is
checked strictly: unknown, missing and doubled keys, kinds, sizes, names that nothing uses, formats that tern does not
have, rows that no whole number of blocks makes. Then its tensors are summed. The sum may differ from `parameters` by
3 %, by 5 % where an entry of `estimated` begins with "parameters: " and says why; bytes, where published, by 1 %.
The table it prints is Markdown. Exit status 1 on any fault. Python's standard library is all it needs.

Active parameters are those that one token reads: all but the embedding, of which it reads one row, and the experts that
are not used. A tied output reads the embedding whole.
"""
import argparse
import glob
import json
import os
import re
import sys

TOP = ("name", "architecture", "sources", "estimated", "vocabulary", "width", "context", "tied_output", "attention",
       "ffn", "layers", "formats", "parameters", "bytes")
ROLES = ("embedding", "output", "attention", "dense", "experts", "shared", "router", "norm")
# The kinds: key -> the least value of a size, or bool.
ATTENTION = {
    "softmax": {"heads": 1, "kv_heads": 1, "head_dim": 1, "window": 0, "bias": bool, "norm": bool, "sinks": bool,
                "gate": bool},
    "latent": {"heads": 1, "q_rank": 0, "kv_rank": 1, "rope_dim": 0, "nope_dim": 1, "value_dim": 1},
    "linear": {"key_heads": 1, "value_heads": 1, "key_dim": 1, "value_dim": 1, "conv": 1},
}
FFN = {
    "dense": {"hidden": 1},
    "experts": {"experts": 1, "used": 1, "hidden": 1, "shared_hidden": 0},
}
# The architectures that include/tern/model/open_decoder.hpp opens; others are priced only.
DECODED = ("llama", "qwen2", "qwen3", "qwen3moe", "gemma3", "gpt-oss")


class Fault(Exception):
    pass


def need(condition, where, what):
    if not condition:
        raise Fault(f"{where}: {what}")


def object_of(value, where, keys=None):
    need(isinstance(value, dict), where, "an object is needed")
    if keys is not None:
        unknown, missing = sorted(set(value) - set(keys)), [k for k in keys if k not in value]
        need(not unknown, where, f"unknown key {', '.join(unknown)}")
        need(not missing, where, f"key {', '.join(missing)} is missing")
    return value


def size(value, where, least=1):
    need(type(value) is int and least <= value < 2**48, where,
         f"a whole number from {least} on is needed, not {value!r}")
    return value


def text(value, where):
    need(isinstance(value, str) and value.strip() == value != "", where, f"a text is needed, not {value!r}")
    return value


def member(value, where, kinds):
    kind = object_of(value, where).get("kind")
    need(isinstance(kind, str) and kind in kinds, where, f"kind is {kind!r}, one of {', '.join(kinds)} is needed")
    object_of(value, where, ["kind", *kinds[kind]])
    for key, rule in kinds[kind].items():
        if rule is bool:
            need(type(value[key]) is bool, f"{where}.{key}", "true or false is needed")
        else:
            size(value[key], f"{where}.{key}", rule)


def doubled(pairs):
    whole = {}
    for key, value in pairs:
        need(key not in whole, "JSON", f"key {key} is there twice")
        whole[key] = value
    return whole


def no_constant(word):
    raise Fault(f"JSON: {word} is no number")


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f, object_pairs_hook=doubled, parse_constant=no_constant)


def formats_of(root):
    """name -> (numbers, bytes) of a block, for every format that tern brings."""
    folder = os.path.join(root, "include/tern/format")
    with open(os.path.join(folder, "gguf_types.hpp"), encoding="utf-8") as f:
        blocks = {name: (int(n), int(b)) for name, n, b in re.findall(r'\{\d+, "(\w+)", (\d+), (\d+)\}', f.read())}
    with open(os.path.join(folder, "formats.hpp"), encoding="utf-8") as f:
        names = re.search(r"using all_formats = formats<([^>]*)>", f.read()).group(1).split(",")
    return {name.strip(): blocks[name.strip()] for name in names}


def groups(model):
    """(count, attention, ffn) of each run of equal layers, in order."""
    for at, entry in enumerate(model["layers"]):
        where = f"layers[{at}]"
        repeated = "repeat" in object_of(entry, where)
        times = 1
        if repeated:
            object_of(entry, where, ("repeat", "layers"))
            times = size(entry["repeat"], f"{where}.repeat")
            need(isinstance(entry["layers"], list) and entry["layers"], f"{where}.layers", "a list is needed")
        for inner in entry["layers"] if repeated else [entry]:
            object_of(inner, where, ("count", "attention", "ffn"))
            size(inner["count"], f"{where}.count")
            for key in ("attention", "ffn"):
                need(isinstance(inner[key], str) and inner[key] in model[key], f"{where}.{key}", f"no {inner[key]!r}")
            yield times * inner["count"], inner["attention"], inner["ffn"]


def check(model, formats):
    object_of(model, "the description", TOP)
    text(model["name"], "name")
    need(re.fullmatch(r"[a-z0-9_-]+", text(model["architecture"], "architecture")), "architecture", "not GGUF's name")
    for key in ("vocabulary", "width", "context"):
        size(model[key], key)
    need(type(model["tied_output"]) is bool, "tied_output", "true or false is needed")
    need(isinstance(model["sources"], list) and model["sources"], "sources", "a list is needed")
    for at, source in enumerate(model["sources"]):
        need("https://" in text(source, f"sources[{at}]"), f"sources[{at}]", "no public page is named")
    for key, kinds in (("attention", ATTENTION), ("ffn", FFN)):
        need(object_of(model[key], key), key, "is empty")
        for name, value in model[key].items():
            member(value, f"{key}.{name}", kinds)
    for name, a in model["attention"].items():
        if a["kind"] == "softmax":
            need(a["heads"] % a["kv_heads"] == 0, f"attention.{name}", "kv_heads does not divide heads")
            need(a["window"] <= model["context"], f"attention.{name}.window", "is more than the context")
        if a["kind"] == "linear":
            need(a["value_heads"] % a["key_heads"] == 0, f"attention.{name}", "key_heads does not divide value_heads")
    for name, f in model["ffn"].items():
        need(f["kind"] == "dense" or f["used"] <= f["experts"], f"ffn.{name}", "more experts are used than there are")
    need(isinstance(model["layers"], list) and model["layers"], "layers", "a list is needed")
    used = list(groups(model))
    for at, key in ((1, "attention"), (2, "ffn")):
        idle = sorted(set(model[key]) - {g[at] for g in used})
        need(not idle, key, f"no layer uses {', '.join(idle)}")
    for role, name in object_of(model["formats"], "formats", ROLES).items():
        need(isinstance(name, str) and name in formats, f"formats.{role}", f"tern has no format {name!r}")
    published = model["parameters"]
    need(type(published) in (int, float) and 0 < published < 1e16, "parameters", "a number is needed")
    if model["bytes"] is not None:
        size(model["bytes"], "bytes")
    need(isinstance(model["estimated"], list), "estimated", "a list is needed")
    for at, entry in enumerate(model["estimated"]):
        node, where = model, f"estimated[{at}]"
        path = text(entry, where).split(": ", 1)[0]
        for part in path.split("."):
            need(isinstance(node, dict) and part in node, where, f"begins with {path!r}, which is no key")
            node = node[part]


def attention_tensors(a, width):
    """(role, rows, columns) of one layer; columns are what a product sums over."""
    role = "attention"
    if a["kind"] == "softmax":
        q, kv = a["heads"] * a["head_dim"], a["kv_heads"] * a["head_dim"]
        yield from ((role, q * (2 if a["gate"] else 1), width), (role, kv, width), (role, kv, width), (role, width, q))
        yield "norm", 1, a["bias"] * (q + 2 * kv) + a["norm"] * 2 * a["head_dim"] + a["sinks"] * a["heads"]
    elif a["kind"] == "latent":
        q = a["heads"] * (a["nope_dim"] + a["rope_dim"])
        if a["q_rank"]:
            yield from ((role, a["q_rank"], width), (role, q, a["q_rank"]))
        else:
            yield role, q, width
        yield from ((role, a["kv_rank"] + a["rope_dim"], width),
                    (role, a["heads"] * (a["nope_dim"] + a["value_dim"]), a["kv_rank"]),
                    (role, width, a["heads"] * a["value_dim"]))
        yield "norm", 1, a["q_rank"] + a["kv_rank"]
    else:
        k, v = a["key_heads"] * a["key_dim"], a["value_heads"] * a["value_dim"]
        yield from ((role, k, width), (role, k, width), (role, v, width), (role, v, width))  # q, k, v, gate
        yield from ((role, 2 * a["value_heads"], width), (role, width, v))  # beta and decay; out
        yield "norm", 1, a["conv"] * (2 * k + v) + 2 * a["value_heads"] + a["value_dim"]  # conv, decay's own, norm


def tensors(model):
    """(role, rows, columns, how many there are, how many one token reads)."""
    width, vocabulary, tied = model["width"], model["vocabulary"], model["tied_output"]
    yield "embedding", vocabulary, width, 1, 1 if tied else 0
    if not tied:
        yield "output", vocabulary, width, 1, 1
    yield "norm", 1, width, 1, 1
    for count, attention, ffn in groups(model):
        for role, rows, columns in attention_tensors(model["attention"][attention], width):
            yield role, rows, columns, count, count
        yield "norm", 1, 2 * width, count, count
        f = model["ffn"][ffn]
        if f["kind"] == "dense":
            yield "dense", 2 * f["hidden"], width, count, count
            yield "dense", width, f["hidden"], count, count
            continue
        there, read = count * f["experts"], count * f["used"]
        yield "router", f["experts"], width, count, count
        yield "experts", 2 * f["hidden"], width, there, read
        yield "experts", width, f["hidden"], there, read
        if f["shared_hidden"]:
            yield "shared", 2 * f["shared_hidden"], width, count, count
            yield "shared", width, f["shared_hidden"], count, count


def sums(model, formats):
    total = active = total_bytes = active_bytes = 0
    for role, rows, columns, there, read in tensors(model):
        numbers, block = formats[model["formats"][role]]
        need(columns % numbers == 0, f"formats.{role}", f"rows of {columns} are no whole blocks of {numbers}")
        one = rows * columns
        total, active = total + there * one, active + read * one
        one = one // numbers * block
        total_bytes, active_bytes = total_bytes + there * one, active_bytes + read * one
    return total, active, total_bytes, active_bytes


def row(name, model, summed):
    total, active, total_bytes, active_bytes = summed
    layers = sum(count for count, _, _ in groups(model))
    attention = model["attention"].values()
    lacking = sorted({a["kind"] for a in attention} - {"softmax"})
    lacking += ["gate"] if any(a.get("gate") for a in attention) else []
    if model["architecture"] != "gpt-oss":
        lacking += ["sinks"] if any(a.get("sinks") for a in attention) else []
    if model["architecture"] not in DECODED:
        lacking = lacking or [model["architecture"]]
    off = 100 * (total / model["parameters"] - 1)
    return (f"| `{name}` | {layers} | {total / 1e9:.2f} | {off:+.1f} % | {active / 1e9:.2f} | {total_bytes / 1e9:.2f} "
            f"| {active_bytes / 1e9:.2f} | {', '.join(lacking) or '-'} |")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", default=os.path.dirname(os.path.dirname(here)), help="root of the source tree")
    p.add_argument("files", nargs="*", metavar="FILE", help="descriptions; without one, those of examples/models")
    a = p.parse_args()
    formats = formats_of(a.root)
    files = a.files or sorted(glob.glob(os.path.join(a.root, "examples/models/*.json")))
    page = ""
    if not a.files:
        with open(os.path.join(a.root, "docs/models.md"), encoding="utf-8") as f:
            page = f.read()
    print("| File | Layers | Parameters, 1e9 | Off | Active, 1e9 | GB | GB a token | Priced only, for |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    faults = []
    for path in files:
        name = os.path.splitext(os.path.basename(path))[0]
        try:
            model = read(path)
            check(model, formats)
            summed = sums(model, formats)
            line = row(name, model, summed)
            print(line)
            reason = any(e.startswith("parameters: ") for e in model["estimated"])
            limit = 0.05 if reason else 0.03
            off = summed[0] / model["parameters"] - 1
            need(abs(off) <= limit, "parameters",
                 f"the tensors differ by {100 * off:+.2f} %, {100 * limit:.0f} % at most")
            if model["bytes"] is not None:
                off = summed[2] / model["bytes"] - 1
                need(abs(off) <= 0.01, "bytes", f"the tensors differ by {100 * off:+.2f} %, 1 % at most")
            need(a.files or line in page, "docs/models.md", "does not have this row")
        except (Fault, OSError, ValueError, RecursionError) as fault:
            faults.append(f"{path}: {fault}")
    for fault in faults:
        print(fault, file=sys.stderr)
    if not files:
        print("no descriptions", file=sys.stderr)
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
