#!/bin/sh
# tern.hpp costs at most 100 MB more of the compiler's memory than the standard headers that tern's headers name; g++
# -O0. What a compiler allocates is its work counted: the same on every machine and under any load, where seconds are
# not (100 MB take about a second). And it drags in neither Eigen nor Thrust nor the CUDA toolkit.
#   include_budget.sh include work-folder compiler
set -eu
include=$1
work=$2
compiler=$3
budget_mb=100
mkdir -p "$work"
cd "$work"

printf '#include <tern/tern.hpp>\nint main() {}\n' > tern.cpp
"$compiler" -std=c++20 -I"$include" -M tern.cpp | tr ' \\' '\n' | grep / > dependencies.txt
if grep -E '/(Eigen|thrust|cub|cccl|cuda_runtime[a-z_]*\.h|cublas[a-z_0-9]*\.h|[a-z0-9]*intrin\.h)(/|$)' \
    dependencies.txt; then
    echo "tern.hpp must not include these"
    exit 1
fi

# The standard headers that the headers reached from tern.hpp include directly.
grep "^$include/tern/" dependencies.txt | xargs sed -n 's/^ *# *include *\(<[a-z_]*>\).*/#include \1/p' |
    LC_ALL=C sort -u > standard.cpp
echo 'int main() {}' >> standard.cpp

# The report's last line: " TOTAL : user system wall memory", where memory ends in M or k.
megabytes() {
    LC_ALL=C "$compiler" -std=c++20 -O0 -ftime-report -I"$include" -c "$1" -o object.o 2>&1 |
        awk '$1 == "TOTAL" { unit = substr($NF, length($NF)); n = $NF + 0; print int(unit == "k" ? n / 1000 : n) }'
}
standard=$(megabytes standard.cpp)
tern=$(megabytes tern.cpp)
difference=$((tern - standard))
echo "tern.hpp: $tern MB, $(grep -c include standard.cpp) standard headers: $standard MB," \
    "difference $difference MB of $budget_mb MB"
# A report without figures would make the difference 0.
[ "$standard" -gt 50 ] && [ "$difference" -gt 10 ] && [ "$difference" -le "$budget_mb" ]
