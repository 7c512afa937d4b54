//! The scan-find binary; the library has all of its code.

fn main() -> std::process::ExitCode {
    scan_find::main()
}
