#!/bin/sh
# Checks the includes of every header below a folder against the floors.
#   floors.sh include tests/build/floors.txt
# A folder includes itself and lower floors. Headers do not include each other in a circle. Eigen, Thrust, cuBLAS and
# intrinsics stay under kernel/. A header of tern is included as <tern/folder/name.hpp>, so that nothing escapes.
set -eu
include=$1
floors=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")

cd "$include"
find tern -type f \( -name '*.hpp' -o -name '*.cuh' -o -name '*.h' \) | LC_ALL=C sort | awk -v floors="$floors" '
function folder_of(path, part) {                       # tern/a/b/c.hpp -> a; tern/c.hpp -> .
    return split(path, part, "/") > 2 ? part[2] : "."
}
function fail(text) { print text; failures++ }
function visit(header, trail, n, i, next_header) {     # depth first; a header met again on its trail closes a circle
    state[header] = 1
    n = split(edges[header], out_of, " ")
    for (i = 1; i <= n; i++) targets[header, i] = out_of[i]
    for (i = 1; i <= n; i++) {
        next_header = targets[header, i]
        if (state[next_header] == 1) fail("circle: " trail " -> " next_header)
        else if (!state[next_header]) visit(next_header, trail " -> " next_header)
    }
    state[header] = 2
}
BEGIN {
    while ((getline line < floors) > 0) {
        sub(/#.*/, "", line)
        if (split(line, field, " ") == 2) floor[field[1]] = field[2] + 0
    }
}
{ headers[++count] = $0; exists[$0] = 1 }
END {
    if (count == 0) fail("no headers found")
    for (h = 1; h <= count; h++) {
        header = headers[h]
        from = folder_of(header)
        if (!(from in floor)) { fail(header ": the folder " from " has no floor"); continue }
        number = 0
        while ((getline line < header) > 0) {
            number++
            if (line !~ /^[ \t]*#[ \t]*include/) continue
            at = header ":" number ": "
            target = line
            sub(/^[ \t]*#[ \t]*include[ \t]*/, "", target)
            if (target !~ /^<[^>]+>/) { fail(at "write #include <...>, not " target); continue }
            sub(/^</, "", target)
            sub(/>.*/, "", target)
            if (target ~ /^(Eigen|unsupported\/Eigen|thrust|cub|cutlass|cute)\// || target ~ /(^|\/)cublas/ ||
                target ~ /intrin\.h$/ || target ~ /(^|\/)arm_(neon|sve|bf16|fp16)\.h$/) {
                if (from != "kernel") fail(at target " belongs under kernel/ only")
                continue
            }
            if (target !~ /^tern\//) continue
            if (!(target in exists)) { fail(at target " does not exist"); continue }
            edges[header] = edges[header] " " target
            to = folder_of(target)
            if (!(to in floor) || to == from) continue
            if (floor[to] > floor[from]) fail(at from "/ includes the higher floor " to "/")
            else if (floor[to] == floor[from]) fail(at from "/ includes " to "/ on the same floor")
        }
        close(header)
    }
    for (h = 1; h <= count; h++) if (!state[headers[h]]) visit(headers[h], headers[h])
    if (failures) { print failures " violations in " count " headers"; exit 1 }
    print count " headers keep to their floors"
}'
