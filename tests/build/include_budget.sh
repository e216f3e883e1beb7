#!/bin/sh
# tern.hpp costs at most a second more than the standard headers that tern's headers name; g++ -O0, best of five. And it
# drags in neither Eigen nor Thrust nor the CUDA toolkit.
#   include_budget.sh include work-folder compiler
set -eu
include=$1
work=$2
compiler=$3
budget_ms=1000
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

# Milliseconds of processor time of one compilation, which other programs on the machine disturb less than a clock does.
once() {
    ("$compiler" -std=c++20 -O0 -I"$include" -c "$1" -o object.o && times) |
        awk -F '[ms ]+' 'NR == 2 { printf "%d", ($1 * 60 + $2 + $3 * 60 + $4) * 1000 }'
}
best_standard=999999
best_tern=999999
for _ in 1 2 3 4 5; do # alternating, so that a busy moment hits both
    ms=$(once standard.cpp); [ "$ms" -lt "$best_standard" ] && best_standard=$ms
    ms=$(once tern.cpp); [ "$ms" -lt "$best_tern" ] && best_tern=$ms
done
difference=$((best_tern - best_standard))
echo "tern.hpp: $best_tern ms, $(grep -c include standard.cpp) standard headers: $best_standard ms," \
    "difference $difference ms of $budget_ms ms"
[ "$difference" -le "$budget_ms" ]
