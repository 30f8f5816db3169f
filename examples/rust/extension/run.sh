#!/bin/sh
# Builds the module `rusty` and exchanges tensors with it.
#   BUILD_DIR   where cargo builds (default: target/)
#   PYTHON      an interpreter with NumPy and the package isthmus (default: python3)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export CARGO_TARGET_DIR="${BUILD_DIR:-$here/target}"
cd "$here"
cargo build --offline --quiet --release --example rusty
cp "$CARGO_TARGET_DIR/release/examples/librusty.so" "$CARGO_TARGET_DIR/rusty.abi3.so"
PYTHONPATH="$CARGO_TARGET_DIR${PYTHONPATH:+:$PYTHONPATH}" "${PYTHON:-python3}" exchange.py "$@"
