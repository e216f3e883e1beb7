#!/usr/bin/env python3
"""predicted: predictions of generate beside what it then measures, for every policy.

    python benchmarks/predicted.py MODEL.gguf --generate build/release/examples/generate --vram 1MiB --out FILE.json

For each of three emulated accelerators a profile of operators and moves is measured (or taken from --profiles), and the
predictions for all policies are written to a file. Only then the policies run, in turn, --rounds times; the table shows
the prediction, the measured median and the difference: of the prompts of all rounds, and of each run's median token.
Everything with one thread of the CPU by default, so that the accelerator has a core of its own.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

PROMPT = ("In the beginning God created the heaven and the earth. And the earth was without form, and void; and "
          "darkness was upon the face of the deep.")
# Link in bytes a second, latency in us; operations in 10^9 a second, memory in bytes a second, launch in us.
ACCELERATORS = {
    "fast link": ["--link", "8000000000", "--latency-us", "20", "--gops", "40", "--vram-bandwidth", "20000000000",
                  "--launch-us", "20"],
    "even": ["--link", "1000000000", "--latency-us", "50", "--gops", "20", "--vram-bandwidth", "5000000000",
             "--launch-us", "50"],
    "slow link": ["--link", "200000000", "--latency-us", "100", "--gops", "40", "--vram-bandwidth", "20000000000",
                  "--launch-us", "50"],
}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError("; ".join(l for l in done.stderr.splitlines() if l.startswith("generate:")) or "it failed")
    return done


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--generate", default="build/release/examples/generate")
    p.add_argument("--vram", default="1MiB")
    p.add_argument("--threads", default="1")
    p.add_argument("--layers", default="2", help="of layer_split")
    p.add_argument("--tokens", default="64")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--policies", default="")
    p.add_argument("--accelerators", default=",".join(ACCELERATORS))
    p.add_argument("--profiles", default=".", help="folder of the profiles")
    p.add_argument("--out", default="predicted.json")
    a = p.parse_args()
    policies = a.policies.split(",") if a.policies else [
        "all_cpu", "first_fit", f"layer_split={a.layers}", "layer_stream", "expert_offload", "by_tensor"]
    base = [a.generate, a.model, PROMPT, "--threads", a.threads, "--tokens", a.tokens, "--vram", a.vram]
    name = pathlib.Path(a.model).stem
    cases = []
    for accelerator in a.accelerators.split(","):
        profile = os.path.join(a.profiles, f"{name}-{accelerator.replace(' ', '-')}.json")
        for policy in policies:
            command = base + ACCELERATORS[accelerator] + ["--policy", policy]
            explained = os.path.join(a.profiles, "explained.json")
            try:
                run(command + ["--profile", profile, "--explain-json", explained, "--dry"])
                predicted = json.loads(pathlib.Path(explained).read_text())["predicted"]
            except RuntimeError as why:
                print(f"{accelerator}, {policy}: no prediction: {why}", file=sys.stderr)
                continue
            extra = ["--profile", profile] if policy == "by_tensor" else []
            cases.append({"accelerator": accelerator, "policy": policy,
                          "command": command + extra + ["--warm", "--json"], "predicted": predicted,
                          "prefill": [], "decode": []})
    report = {"model": a.model, "written": time.strftime("%Y-%m-%d %H:%M:%S"), "cases": cases}
    pathlib.Path(a.out).write_text(json.dumps(report, indent=1))  # before anything is measured
    for _ in range(a.rounds):
        for case in list(cases):
            try:
                got = json.loads(run(case["command"]).stdout)
            except RuntimeError as why:
                print(f"{case['accelerator']}, {case['policy']}: {why}", file=sys.stderr)
                cases.remove(case)
                continue
            case["prefill"].append(got["prefill_tokens_per_second"])
            case["decode"].append(got["decode_median_tokens_per_second"])
    pathlib.Path(a.out + ".measured").write_text(json.dumps(report, indent=1))
    print(f"{name}, prompt and {a.tokens} tokens, {a.threads} threads, medians of {a.rounds}, tokens/s")
    print(f"{'accelerator':12} {'policy':16} {'prefill: predicted':>18} {'measured':>9} {'error':>7}"
          f" {'decode: predicted':>18} {'measured':>9} {'error':>7}")
    within = 0
    for case in cases:
        line = f"{case['accelerator']:12} {case['policy']:16}"
        for what in ("prefill", "decode"):
            expected = case["predicted"][what + "_tokens_per_second"]
            found = statistics.median(case[what])
            error = found / expected - 1  # of the predicted time against the measured one
            within += abs(error) <= 0.15
            line += f" {expected:18.4g} {found:9.4g} {100 * error:+6.1f}%"
        print(line)
    print(f"within 15 %: {within} of {2 * len(cases)}")


if __name__ == "__main__":
    main()
