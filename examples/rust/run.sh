#!/bin/sh
# Builds the crate, tests it, and lets Python and Rust exchange tensors.
#   ISTHMUS_LIB_DIR   the folder of libisthmus.so (default: the development build)
#   BUILD_DIR         where cargo builds (default: target/)
#   PYTHON            an interpreter with NumPy (default: python3)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
ISTHMUS_LIB_DIR=$(cd "${ISTHMUS_LIB_DIR:-$here/../../build/dev}" && pwd)
export ISTHMUS_LIB_DIR
export LD_LIBRARY_PATH="$ISTHMUS_LIB_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CARGO_TARGET_DIR="${BUILD_DIR:-$here/target}"
cd "$here"
cargo test --offline --quiet
cargo build --offline --quiet --example exchange
"${PYTHON:-python3}" exchange.py "$CARGO_TARGET_DIR/debug/examples/libexchange.so"
