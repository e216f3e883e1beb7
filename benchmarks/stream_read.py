#!/usr/bin/env python3
"""How fast a dense model streams from the disk while it computes, beside fio on the same file.

    benchmarks/stream_read.py MODEL.gguf --generate build/release/examples/generate [--ram 512MiB] [--pairs 7] [--tokens 3]

fio reads the file in order with direct I/O by io_uring, in blocks of 256 KiB, 1 MiB and 4 MiB with 1, 8 and 32 reads
under way; the best of the nine is the measure. Then come the pairs: fio, and generate with --disk direct --policy
layer_stream, which reads its weights anew for each token; each is first in turn. Its speed is the bytes that came from
the disk while it decoded, by the seconds of that. The page cache forgets the file before each run, and the tokens must
be the same each time. Medians, the median of the pairs' ratios, machine, commands and date are printed. fio must be
installed; bench_synthetic makes a model of any size.
"""
import argparse
import datetime
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys

from fio_read import BLOCKS, DEPTHS, cpu, disk, fio, fio_command, forget


def stream(command, path, seen):
    forget(path)
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    seen.append(out["tokens"])
    moved = out["moved"]
    if moved["decoding_passes"] == 0 or seen[0] != seen[-1]:
        sys.exit(f"the run is not right: {out['tokens']}, expected {seen[0]}")
    seconds = moved["decoding_passes"] / out["decode_tokens_per_second"]
    return moved["decoding"]["disk_to_ram"] / seconds / 1e9


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("--generate", required=True)
    p.add_argument("--ram", default="512MiB")
    p.add_argument("--pairs", type=int, default=7)
    p.add_argument("--tokens", type=int, default=3)
    a = p.parse_args()
    print(f"date      {datetime.date.today()}")
    print(f"machine   {cpu()}, {os.cpu_count()} cores, Linux {platform.release()}, {disk(a.file)}")
    print(f"file      {os.path.getsize(a.file) / 2 ** 20:.0f} MiB")
    print("command   benchmarks/stream_read.py " + shlex.join(sys.argv[1:]))
    table = {(b, d): fio(a.file, b, d) for b in BLOCKS for d in DEPTHS}
    for (block, depth), speed in table.items():
        print(f"fio       blocks of {block:>6}, {depth:2} at once: {speed:.3f} GB/s", flush=True)
    block, depth = max(table, key=table.get)
    print(f"best      {shlex.join(fio_command('FILE', block, depth))}")
    command = [a.generate, a.file, "--prompt", "a", "--tokens", str(a.tokens), "--json", "--disk", "direct", "--policy",
               "layer_stream", "--ram", a.ram]
    print("stream    " + shlex.join(command))
    seen, pairs = [], []
    runs = [lambda: fio(a.file, block, depth), lambda: stream(command, a.file, seen)]
    for i in range(a.pairs):
        speeds = [0.0, 0.0]
        for k in range(2):
            speeds[(i + k) % 2] = runs[(i + k) % 2]()
        pairs.append(speeds)
        print("pair {:2}   fio {:.3f}, streaming {:.3f} GB/s, ratio {:.3f}".format(
            i + 1, *speeds, speeds[1] / speeds[0]), flush=True)
    ratio = statistics.median(x[1] / x[0] for x in pairs)
    print(f"median    fio {statistics.median(x[0] for x in pairs):.3f}, streaming "
          f"{statistics.median(x[1] for x in pairs):.3f} GB/s, ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
