//! The program `gather`; the library has its code.

fn main() -> std::process::ExitCode {
    gather::main()
}
