#!/usr/bin/env python3
"""Runs models that are larger than the memory they may use, and checks what they use and what they write.

    cmake --preset release && cmake --build --preset release --target generate bench_synthetic
    benchmarks/larger_than_memory.py                       two models of 3 GiB in 512 MiB
    benchmarks/larger_than_memory.py --size 300MiB --ram 96MiB --slack 32MiB

bench_synthetic makes a dense model and one of experts. `generate` continues a prompt with each: once with
everything in RAM, then with --ram and --policy (dense: layer_stream, experts: expert_offload), reading the file with
--disk direct and with --disk mapped. The page cache forgets the file before every run. Every 10 ms the process is asked
for what it uses:

    direct  VmHWM, all memory that it ever had at once
    mapped  RssAnon + RssShmem at most: pages of the mapped file are the system's to drop

A run passes when that is at most --ram + --slack and its tokens are those of the run in RAM. Exit status 1 where one
does not. Nothing beyond Python is needed, and room on the disk for one of the models at a time.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
POLICIES = {"dense": "layer_stream", "experts": "expert_offload"}
MIB = 1 << 20


def parse_size(text):
    m = re.fullmatch(r"([0-9.]+) *([KMGT]?)(i?B)?", text)
    if not m:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 512MiB")
    return int(float(m[1]) * 1024 ** " KMGT".index(m[2] or " "))


def mib(n):
    return "-" if n is None else f"{n / MIB:.0f}"


def first_match(path, pattern, default="unknown"):
    try:
        with open(path) as f:
            found = re.search(pattern, f.read(), re.M)
    except OSError:
        return default
    return found[1] if found else default


def machine():
    cpu = first_match("/proc/cpuinfo", r"^model name\s*: (.*)$")
    ram = first_match("/proc/meminfo", r"^MemTotal:\s*(\d+) kB", "0")
    return (f"{cpu}, {len(os.sched_getaffinity(0))} processors, {int(ram) >> 20} GiB RAM, "
            f"{platform.system()} {platform.release()}")


def forget(path):
    """Takes the file out of the page cache."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


class Watcher(threading.Thread):
    """Samples /proc/PID until told to stop."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.over = pid, threading.Event()
        self.high, self.own, self.read, self.samples = 0, 0, 0, 0

    def run(self):
        while not self.over.is_set():
            begin = time.monotonic()
            self.sample()
            self.over.wait(max(0, 0.01 - (time.monotonic() - begin)))

    def sample(self):
        try:
            with open(f"/proc/{self.pid}/status") as f:
                kib = {k: int(v) for k, v in re.findall(r"^(\w+):\s+(\d+) kB$", f.read(), re.M)}
            with open(f"/proc/{self.pid}/io") as f:
                self.read = max(self.read, int(re.search(r"^read_bytes: (\d+)$", f.read(), re.M)[1]))
        except (OSError, TypeError):
            return  # it ended, or may not be asked
        if "VmHWM" in kib:
            self.samples += 1
            self.high = max(self.high, kib["VmHWM"] * 1024)
            self.own = max(self.own, (kib["RssAnon"] + kib["RssShmem"]) * 1024)


def run(command, model, timeout):
    """What one run of generate wrote and used; "error" is None where it ended well."""
    forget(model)
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        watcher = Watcher(process.pid)
        watcher.start()
        alarm = threading.Timer(timeout, process.kill)
        alarm.start()
        try:
            # Until it is waited for, its numbers cannot belong to another process.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            watcher.over.set()
            watcher.join()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            alarm.cancel()
            watcher.over.set()
            if process.returncode is None:
                process.kill()
                process.wait()
        seconds = time.monotonic() - begin
        out.seek(0)
        err.seek(0)
        written, said = out.read().decode(errors="replace"), err.read().decode(errors="replace").strip()
    # The kernel's own mark, which no sample can miss.
    r = {"high": max(watcher.high, used.ru_maxrss * 1024), "own": watcher.own, "read": watcher.read,
         "seconds": seconds, "tokens": None, "rate": None, "error": None}
    if process.returncode != 0:
        r["error"] = f"exit status {process.returncode}: {(said.splitlines() or ['no message'])[-1]}"
    elif watcher.samples == 0:
        r["error"] = "no sample of its memory could be taken"
    else:
        try:
            answer = json.loads(written)
            r["tokens"], r["rate"] = answer["tokens"], answer.get("decode_tokens_per_second")
        except (ValueError, KeyError) as e:
            r["error"] = f"its output is no JSON with tokens: {e!r}"
    return r


def make_model(a, kind, path):
    command = [a.synthetic, path, "--kind", kind, "--size", str(a.size), "--format", a.format]
    print("$ " + shlex.join(command), flush=True)
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        sys.exit(f"{a.synthetic} ended with status {made.returncode}")
    print(made.stdout.strip(), flush=True)
    if os.stat(path).st_blocks * 512 < os.stat(path).st_size * 0.99:
        sys.exit(f"{path} has holes, or its file system compresses: reading it would prove nothing")
    return json.loads(made.stdout)


def verdict(a, disk, r, reference):
    """Why a limited run fails, or an empty text."""
    if r["error"]:
        return r["error"]
    peak = r["high"] if disk == "direct" else r["own"]
    if peak > a.ram + a.slack:
        return f"used {mib(peak)} MiB, {mib(a.ram + a.slack)} allowed"
    if len(r["tokens"]) != a.tokens:
        return f"wrote {len(r['tokens'])} tokens of {a.tokens}"
    if reference["error"]:
        return "nothing to compare with"
    if r["tokens"] != reference["tokens"]:
        return f"wrote {r['tokens']}, in RAM {reference['tokens']}"
    return ""


def run_model(a, kind, path):
    """The rows of one model; each ends with why it fails."""
    size = os.path.getsize(path)
    base = [a.generate, path, "--prompt", a.prompt, "--tokens", str(a.tokens), "--json"] + a.extra
    free = int(first_match("/proc/meminfo", r"^MemAvailable:\s*(\d+) kB", "0")) * 1024
    everything = ["--policy", "all_cpu"] + (["--load"] if free > size + 1024 * MIB else ["--disk", "mapped"])
    plans = [(None, everything)]
    for disk in a.disks:
        plans.append((disk, ["--ram", str(a.ram), "--disk", disk, "--policy", POLICIES[kind]]))
    rows, reference = [], None
    for disk, options in plans:
        print("$ " + shlex.join(base + options), flush=True)
        r = run(base + options, path, a.timeout)
        reference = reference or r
        why = (r["error"] or "") if disk is None else verdict(a, disk, r, reference)
        rows.append([f"{kind}, {mib(size)} MiB", " ".join(options).replace(str(a.ram), mib(a.ram) + "MiB"),
                     mib(r["high"]), mib(r["own"]), mib(a.ram + a.slack) if disk else "-",
                     {None: "-", "direct": "VmHWM", "mapped": "anonymous"}[disk], mib(r["read"]),
                     "-" if r["rate"] is None else f"{r['rate']:.2f}", f"{r['seconds']:.1f}",
                     "FAILED: " + why if why else "reference" if disk is None else "passed"])
    return rows


def print_table(rows):
    head = ["model", "options", "VmHWM MiB", "anonymous MiB", "allowed MiB", "measured by", "read MiB", "tokens/s",
            "seconds", "result"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", type=parse_size, default="3GiB", help="of each model (3GiB)")
    p.add_argument("--ram", type=parse_size, default="512MiB", help="that generate may use (512MiB)")
    p.add_argument("--slack", type=parse_size, default="64MiB", help="for code, stacks and the like (64MiB)")
    p.add_argument("--kinds", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    p.add_argument("--disks", nargs="+", choices=["direct", "mapped"], default=["direct", "mapped"])
    p.add_argument("--format", default="q8_0", help="of the weights (q8_0)")
    p.add_argument("--prompt", default="The tern flies")
    p.add_argument("--tokens", type=int, default=4)
    p.add_argument("--timeout", type=float, default=1800, help="seconds for one run (1800)")
    p.add_argument("--folder", help="for the models, which are removed (a temporary one in the build folder)")
    p.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                   help="the build folder that holds both programs (build/release)")
    p.add_argument("--generate", help="the program (BUILD/examples/generate)")
    p.add_argument("--synthetic", help="the program (BUILD/benchmarks/bench_synthetic)")
    p.add_argument("extra", nargs="*", metavar="-- OPTION", help="more options for every run of generate")
    a = p.parse_args()
    a.generate = a.generate or os.path.join(a.build, "examples", "generate")
    a.synthetic = a.synthetic or os.path.join(a.build, "benchmarks", "bench_synthetic")
    for program in (a.generate, a.synthetic):
        if not os.access(program, os.X_OK):
            p.error(f"{program} is not there: say where it is, or build it with\n"
                    "    cmake --preset release && cmake --build --preset release --target generate bench_synthetic")
    if a.size <= a.ram + a.slack:
        print("note: the models fit into the allowed memory, so this shows little", flush=True)
    return a


def main():
    a = arguments()
    beside = a.folder or a.build
    os.makedirs(beside, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="larger_than_memory.", dir=beside) as folder:
        for kind in a.kinds:
            path = os.path.join(folder, kind + ".gguf")
            try:
                make_model(a, kind, path)
                rows += run_model(a, kind, path)
            finally:
                if os.path.exists(path):
                    os.remove(path)
    print_table(rows)
    print(f"\n{datetime.datetime.now().astimezone().isoformat(timespec='seconds')}, {machine()}")
    print("$ " + shlex.join(sys.argv))
    sys.exit(1 if any(row[-1].startswith("FAILED") for row in rows) else 0)


if __name__ == "__main__":
    main()
