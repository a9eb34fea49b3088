//! The broker has the function by which a module gives its output. Newer linkers must be told so.

fn main() {
    println!("cargo::rustc-link-arg=--allow-undefined");
}
