#!/bin/sh
# floors.sh finds each kind of violation, and nothing in a tree without one.
#   floors_test.sh tests/build
set -eu
here=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

put() { # path, text
    mkdir -p "$tree/include/tern/$(dirname "$1")"
    printf '%s\n' "$2" >> "$tree/include/tern/$1"
}
fresh() {
    rm -rf "$tree/include"
    put base/a.hpp '#include <vector>'
    put memory/b.hpp '#include <tern/base/a.hpp>'
    put kernel/cpu/c.hpp '#include <Eigen/Core>'
    put tern.hpp '#include <tern/memory/b.hpp>'
}
finds() { # expected sentence; the tree is what was put since fresh
    if report=$(sh "$here/floors.sh" "$tree/include" "$here/floors.txt"); then
        echo "not found: $1"
        exit 1
    fi
    case $report in
        *"$1"*) ;;
        *) printf 'expected "%s", got:\n%s\n' "$1" "$report"; exit 1 ;;
    esac
}

fresh
sh "$here/floors.sh" "$tree/include" "$here/floors.txt" > /dev/null
put base/a.hpp '#include <tern/memory/b.hpp>';    finds 'tern/base/a.hpp:2: base/ includes the higher floor memory/'
fresh; put base/a.hpp '  #  include <tern/tern.hpp> // why'; finds 'base/ includes the higher floor ./'
fresh; put format/d.hpp ''; put text/e.hpp '#include <tern/format/d.hpp>'
finds 'text/ includes format/ on the same floor'
fresh; put base/f.hpp '#include <tern/base/g.hpp>'; put base/g.hpp '#include <tern/base/f.hpp>'; finds 'circle: '
fresh; put base/f.hpp '#include <tern/base/f.hpp>'; finds 'circle: tern/base/f.hpp -> tern/base/f.hpp'
fresh; put memory/b.hpp '#include <Eigen/Core>';  finds 'Eigen/Core belongs under kernel/ only'
fresh; put memory/b.hpp '#include <thrust/sort.h>'; finds 'thrust/sort.h belongs under kernel/ only'
fresh; put memory/b.hpp '#include <cublas_v2.h>'; finds 'cublas_v2.h belongs under kernel/ only'
fresh; put memory/b.hpp '#include <immintrin.h>'; finds 'immintrin.h belongs under kernel/ only'
fresh; put memory/b.hpp '#include "other.hpp"';   finds 'write #include <...>, not "other.hpp"'
fresh; put memory/b.hpp '#include <tern/base/gone.hpp>'; finds 'tern/base/gone.hpp does not exist'
fresh; put extra/h.hpp '';                        finds 'the folder extra has no floor'
rm -rf "$tree/include/tern"; mkdir "$tree/include/tern"; finds 'no headers found'
echo "every kind of violation is found"
