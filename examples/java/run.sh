#!/bin/sh
# Builds the Java classes and their native methods, and lets Python and Java exchange tensors.
#   ISTHMUS_LIB_DIR   the folder of libisthmus.so (default: the development build)
#   ISTHMUS_INCLUDE_DIR  the folder of isthmus/c/isthmus.h (default: that of this repository)
#   BUILD_DIR         where to build (default: build/)
#   PYTHON            an interpreter with NumPy (default: python3)
#   JAVA_HOME         a JDK, 17 or newer (default: the one of javac)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
lib=$(cd "${ISTHMUS_LIB_DIR:-$here/../../build/dev}" && pwd)
jdk=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
build=${BUILD_DIR:-$here/build}
mkdir -p "$build/classes"
"$jdk/bin/javac" --release 17 -Xlint:all -Werror -d "$build/classes" "$here"/src/*.java "$here"/src/isthmus/*.java
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -shared -fPIC \
    -I "${ISTHMUS_INCLUDE_DIR:-$here/../../include}" -I "$jdk/include" -I "$jdk/include/linux" "$here"/native/*.c -o "$build/libisthmus_java.so" \
    -L "$lib" -listhmus -L "$jdk/lib/server" -ljvm "-Wl,-rpath,$lib:$jdk/lib/server"
"${PYTHON:-python3}" "$here/exchange.py" "$build/libisthmus_java.so" "$build/classes"
