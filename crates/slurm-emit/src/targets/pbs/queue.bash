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

# Notes a job that PBS has taken: note_job JOB WHAT. One that is not noted would be submitted again: it is taken back.
note_job() {
    local size
    size=$(stat --format=%s submitted 2> /dev/null || echo 0)
    if printf '%s %s, %s\n' "$1" "$2" "$(date '+%F %T')" >> submitted; then return; fi
    # A line for which there was no room may be there in part, with the number of another job.
    truncate --no-create --size="$size" submitted || true
    qdel "$1" || printf '%s: qdel %s failed: delete this job by hand\n' "${0##*/}" "$1" >&2
    die "$PWD/submitted can not be written: see the message above; job $1 was deleted: run ./${0##*/} again when it can"
}

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
