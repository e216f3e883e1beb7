#!/bin/sh
# Installs the package, moves it, and builds and runs a project that uses it: by find_package as on a machine without
# CUDA, Eigen and PCRE2, then with whatever this machine has, and by add_subdirectory.
#   consume.sh source build work-folder cmake generator compiler
set -eu
source=$1
build=$2
work=$3
cmake=$4
generator=$5
compiler=$6
here=$source/tests/build/consume

rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/first" > /dev/null
mv "$work/first" "$work/moved"
package=$(dirname "$(find "$work/moved" -name tern-config.cmake)")
if grep -l -e "$work/first" -e "$source" "$package"/*.cmake; then
    echo "the package names the folder it was built in"
    exit 1
fi

consume() { # name, options of cmake...
    name=$1
    shift
    if ! { "$cmake" -S "$here" -B "$work/$name" -G "$generator" -DCMAKE_CXX_COMPILER="$compiler" "$@" &&
        "$cmake" --build "$work/$name"; } > "$work/$name.log" 2>&1; then
        cat "$work/$name.log"
        exit 1
    fi
    "$work/$name/consumer"
}
consume bare -Dtern_DIR="$package" -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON \
    -DTERN_PCRE2_INCLUDE_DIR= -DTERN_PCRE2_LIBRARY= -DEXPECT_CUDA=OFF
consume found -Dtern_DIR="$package"
consume subdirectory -DTERN_SOURCE="$source"
echo "the package serves three consumers"
