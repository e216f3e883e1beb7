#!/bin/sh
# A header compiles alone, and twice in one file.
#   header_alone.sh tern/base/units.hpp work-folder compiler flags...
set -eu
header=$1
work=$2
shift 2
mkdir -p "$work"
case $header in *.cuh) kind=cu ;; *) kind=cpp ;; esac
source=$work/$(printf '%s' "$header" | tr '/.' '__').$kind
printf '#include <%s>\n#include <%s>\n' "$header" "$header" > "$source"
if [ $kind = cu ]; then
    "$@" -c -o "$source.o" "$source"
else
    "$@" -fsyntax-only "$source"
fi
