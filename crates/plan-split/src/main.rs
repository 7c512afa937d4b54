//! The binary; see the library.

fn main() -> std::process::ExitCode {
    plan_split::main()
}
