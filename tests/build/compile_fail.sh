#!/bin/sh
# A file that must not compile, with the sentences a user must read; with TERN_PASS defined it must compile.
#   compile_fail.sh file compiler flags...
# The file holds one or more lines "// expect: <extended regular expression>", and perhaps "// flags: ...", which are
# passed where it must fail.
set -eu
file=$1
shift
export LC_ALL=C
if ! report=$("$@" -DTERN_PASS -fsyntax-only "$file" 2>&1); then
    printf 'with TERN_PASS %s must compile:\n%s\n' "$file" "$report"
    exit 1
fi
# shellcheck disable=SC2046 # words, not one argument
if report=$("$@" $(sed -n 's|^// flags: ||p' "$file") -fsyntax-only "$file" 2>&1); then
    echo "$file compiles and must not"
    exit 1
fi
expectations=$(sed -n 's|^ *// expect: ||p' "$file")
if [ -z "$expectations" ]; then
    echo "$file has no line // expect: ..."
    exit 1
fi
printf '%s\n' "$expectations" | while IFS= read -r expected; do
    if ! printf '%s\n' "$report" | grep -Eq -- "$expected"; then
        printf 'expected "%s", got:\n%s\n' "$expected" "$report"
        exit 1
    fi
done
