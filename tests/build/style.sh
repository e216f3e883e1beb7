#!/bin/sh
# What every source file keeps to: at most 120 columns, no tabs, no blanks at a line's end, a newline at the file's end,
# headers open with #pragma once, and no header of more than 400 lines.
#   style.sh source-tree
set -eu
cd "$1"
export LC_ALL=C
find include tests examples benchmarks -type f \
    \( -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' -o -name '*.sh' \) | sort | xargs awk '
function fail(line, text) { print name ":" line ": " text; failures++ }
function finish() {
    if (name == "") return
    if (header && !guarded) fail(1, "no #pragma once")
    if (header && lines > 400) fail(lines, lines " lines, 400 at most")
}
FNR == 1 { finish(); name = FILENAME; header = name ~ /\.(hpp|cuh)$/; guarded = 0; files++ }
{ lines = FNR }
length($0) > 120 {
    plain = $0
    gsub(/[\200-\277]/, "", plain) # length counts bytes: take a character of UTF-8 once
    if (length(plain) > 120) fail(FNR, "longer than 120 columns")
}
/\t/ { fail(FNR, "a tab") }
/[ \r]$/ { fail(FNR, "blanks at the end") }
/^#pragma once/ { guarded = 1 }
END { finish(); if (failures || !files) exit 1; print files " files keep to the style" }'
