//! The ai-integrate binary; the library has all of its code.

fn main() -> std::process::ExitCode {
    ai_integrate::main()
}
