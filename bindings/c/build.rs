//! Names the shared library as it is installed, so that programs linked with it find it under that
//! name.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number changes with the binary interface; namely-c-install makes the links that belong to
    // it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnamely.so.0");
}
