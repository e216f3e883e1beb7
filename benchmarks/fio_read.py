#!/usr/bin/env python3
"""bench_read against fio on the same file.

    benchmarks/fio_read.py FILE --bench build/release/benchmarks/bench_read [--pairs 7] [--reader io_uring]
    benchmarks/fio_read.py FILE --make 2GiB ...        makes the file first, and removes it at the end

fio reads the file in order with direct I/O by io_uring, in blocks of 256 KiB, 1 MiB and 4 MiB with 1, 8 and 32 reads
under way; the best of the nine is what bench_read is compared with. bench_read runs with the same block and depth, and
with its defaults. Then come the pairs, fio and both of bench_read in turn. The page cache forgets the file before each
run. Medians, the median of the pairs' ratios, machine, commands and date are printed. fio must be installed.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys

BLOCKS = ["256KiB", "1MiB", "4MiB"]
DEPTHS = [1, 8, 32]


def parse_size(text):
    m = re.fullmatch(r"(\d+) *([KMGT]?)(i?B)?", text)
    if not m:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 2GiB")
    return int(m[1]) * 1024 ** " KMGT".index(m[2] or " ")


def make(path, size):
    """A file of bytes that do not compress, written to the disk."""
    with open(path, "xb") as f:
        for _ in range(size >> 20):
            f.write(os.urandom(1 << 20))
        os.fsync(f.fileno())


def forget(path):
    f = os.open(path, os.O_RDONLY)
    os.fdatasync(f)
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(f)


def fio_command(path, block, depth):
    return ["fio", "--name=read", f"--filename={path}", "--readonly", "--rw=read", "--direct=1", "--ioengine=io_uring",
            f"--bs={parse_size(block)}", f"--iodepth={depth}", "--output-format=json"]


def fio(path, block, depth):
    forget(path)
    out = subprocess.run(fio_command(path, block, depth), check=True, capture_output=True, text=True).stdout
    read = json.loads(out[out.index("{"):])["jobs"][0]["read"]
    return read["io_bytes"] / (read["runtime"] / 1e3) / 1e9


def bench(command, path):
    forget(path)
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(re.search(r"([0-9.e+-]+) GB/s", out)[1])


def cpu():
    with open("/proc/cpuinfo") as f:
        m = re.search(r"model name\s*: (.*)", f.read())
    return m[1] if m else platform.machine()


def disk(path):
    out = subprocess.run(["df", "--output=source,fstype", path], capture_output=True, text=True).stdout
    return " ".join(out.split()[-2:])


def compare(a):
    print(f"date      {datetime.date.today()}")
    print(f"machine   {cpu()}, {os.cpu_count()} cores, Linux {platform.release()}, {disk(a.file)}")
    print(f"file      {os.path.getsize(a.file) / 2 ** 20:.0f} MiB")
    print("command   benchmarks/fio_read.py " + shlex.join(sys.argv[1:]))
    table = {(b, d): fio(a.file, b, d) for b in BLOCKS for d in DEPTHS}
    for (block, depth), speed in table.items():
        print(f"fio       blocks of {block:>6}, {depth:2} at once: {speed:.3f} GB/s")
    block, depth = max(table, key=table.get)
    print(f"best      {shlex.join(fio_command('FILE', block, depth))}")
    reader = ["--reader", a.reader] if a.reader else []
    same = [a.bench, a.file, "--chunk", block, "--depth", str(depth), *reader]
    plain = [a.bench, a.file, *reader]
    runs = [lambda: fio(a.file, block, depth), lambda: bench(same, a.file), lambda: bench(plain, a.file)]
    pairs = []
    for i in range(a.pairs):
        speeds = [0.0] * 3
        for k in range(3):  # each is first, second and last in turn: disks of virtual machines save up speed
            speeds[(i + k) % 3] = runs[(i + k) % 3]()
        pairs.append(speeds)
        print("pair {:2}   fio {:.3f}, bench_read {:.3f}, by default {:.3f} GB/s".format(i + 1, *speeds), flush=True)
    status = subprocess.run([*same, "--size", "4096"], check=True, capture_output=True, text=True).stdout.split("\n")[0]
    print(f"reader    {status}")
    for name, column in (("bench_read, same block and depth", 1), ("bench_read by default", 2)):
        ratio = statistics.median(x[column] / x[0] for x in pairs)
        print(f"{name}: median {statistics.median(x[column] for x in pairs):.3f} GB/s, fio "
              f"{statistics.median(x[0] for x in pairs):.3f} GB/s, ratio {ratio:.3f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("--bench", required=True, help="bench_read")
    p.add_argument("--make", type=parse_size, help="make FILE of this size, and remove it at the end")
    p.add_argument("--pairs", type=int, default=7)
    p.add_argument("--reader", help="bench_read's --reader")
    a = p.parse_args()
    if a.make:
        make(a.file, a.make)
    try:
        compare(a)
    finally:
        if a.make:
            os.remove(a.file)


if __name__ == "__main__":
    main()
