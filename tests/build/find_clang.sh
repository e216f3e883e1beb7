#!/bin/sh
# Prints a clang++ of version 16 or newer with its runtime libraries (sanitizers, libFuzzer); fails where there is none.
for compiler in clang++-18 clang++-16 clang++-17 clang++-19 clang++-20 clang++-21 clang++; do
    command -v $compiler > /dev/null || continue
    major=$($compiler -dumpversion | cut -d. -f1)
    [ "$major" -ge 16 ] || continue
    folder=$($compiler -print-resource-dir)/lib
    if [ -n "$(find "$folder/" -name 'libclang_rt.fuzzer*.a' 2> /dev/null)" ]; then
        command -v $compiler
        exit 0
    fi
done
exit 1
