// SPDX-License-Identifier: Apache-2.0
//! Finds libisthmus: in ISTHMUS_LIB_DIR, else where the linker looks by itself.

fn main() {
    println!("cargo:rerun-if-env-changed=ISTHMUS_LIB_DIR");
    println!("cargo:rustc-link-lib=dylib=isthmus");
    if let Ok(dir) = std::env::var("ISTHMUS_LIB_DIR") {
        println!("cargo:rustc-link-search=native={dir}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
    }
}
