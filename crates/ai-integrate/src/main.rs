//! The binary; see the library.

fn main() -> std::process::ExitCode {
    ai_integrate::main()
}
