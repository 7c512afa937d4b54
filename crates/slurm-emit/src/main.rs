//! slurm-emit: see the library.

fn main() -> std::process::ExitCode {
    slurm_emit::main()
}
