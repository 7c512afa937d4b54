//! The program `plan-split`; the library has its code.

fn main() -> std::process::ExitCode {
    plan_split::main()
}
