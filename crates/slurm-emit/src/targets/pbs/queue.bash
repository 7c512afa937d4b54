# shellcheck shell=bash disable=SC2034  # sourced by the scripts beside it, which use these variables

# SETTINGS

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

no_answer='qstat failed: see its message above, and try again when PBS answers'
not_writable="$PWD can not be written: see the message above; slurm-emit --dir writes scripts of your own"
no_missing="gather can't tell which tasks are missing: see its message above"

# Ends the script if the commands of PBS are missing.
require_pbs() {
    local command
    for command in qsub qstat qdel; do
        command -v "$command" > /dev/null ||
            die "the command $command of PBS is not found on this machine: run ${0##*/} where jobs can be submitted"
    done
}

cancel_job='qdel'
# NOTE JOB

# Prints the jobs of the last ./submit that are waiting or running, one id per line.
queued() {
    [[ -s submitted ]] || return 0
    local job said status
    while read -r job _; do
        status=0
        said=$(qstat "$job" 2>&1) || status=$?
        # PBS has forgotten the job, or says that it has finished.
        case $status in
            0) printf '%s\n' "$job" ;;
            35 | 153) ;;
            *)
                printf '%s\n' "$said" >&2
                return 1
                ;;
        esac
    done < <(tail -n 2 submitted)
}

# MISSING BATCHES
