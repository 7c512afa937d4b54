//! The binary; see the library.

fn main() -> std::process::ExitCode {
    scan_find::main()
}
