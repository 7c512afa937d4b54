# shellcheck shell=bash disable=SC2034  # sourced by the scripts beside it, which use these variables

# SETTINGS

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

no_answer='squeue failed: see its message above, and try again when SLURM answers'
not_writable="$PWD can not be written: see the message above; slurm-emit --dir writes scripts of your own"
no_missing="gather can't tell which tasks are missing: see its message above"

# Variables of a job that these scripts are called from, and defaults of the user, would change what SLURM does.
for name in "${!SLURM_@}" "${!SBATCH_@}" "${!SQUEUE_@}"; do
    [[ $name == SLURM_CONF ]] || unset "$name"
done

# Ends the script if SLURM's commands are missing.
require_slurm() {
    local command
    for command in sbatch squeue scontrol scancel; do
        command -v "$command" > /dev/null ||
            die "SLURM's command $command is not found on this machine: run ${0##*/} on a machine from which jobs can be" \
                "submitted, or let slurm-emit --target local write scripts for this machine"
    done
}

cancel_job='scancel'
# NOTE JOB

# A count and its noun: plural 2 job jobs
plural() { if (($1 == 1)); then printf '1 %s' "$2"; else printf '%s %s' "$1" "$3"; fi; }

# Counts the lines of `queued`: 1 job, 2 jobs
count_jobs() { plural "$(wc -l <<< "$1")" job jobs; }

# The batches that count are those of the last directory: ./resubmit adds one with smaller batches.
batch_dirs=(batches/[0-9]*/)
batch_dir=${batch_dirs[-1]%/}

# Prints the jobs of ./submit that are waiting or running, whoever submitted them: job, element (of an array), state and
# reason, one per line. SLURM forgets jobs that ended long ago; it refuses to be asked for one of them alone.
queued() {
    [[ -s submitted ]] || return 0
    local ids jobs
    # As many as fit into an argument: a plan that grows for days has more, of which the first have ended. The gather of all
    # results is among the first, and waits for the last.
    ids=$({ grep ' gather,' submitted | tail -n 20; tail -n 10000 submitted; } | cut -d ' ' -f 1 | sort -u | paste -s -d ,)
    if ! jobs=$(squeue --noheader --array --jobs="$ids" --format='%F %K %T %r' 2>&1); then
        [[ $jobs == *'Invalid job id'* ]] && return
        printf '%s\n' "$jobs" >&2
        return 1
    fi
    awk 'NR == FNR { ours[$1]; next } $1 in ours' submitted - <<< "$jobs"
}

# Waits until no job of ./submit is waiting or running. SLURM may be without an answer for a while.
wait_for_jobs() {
    local queue
    until queue=$(queued) && [[ -z $queue ]]; do sleep 5; done
}

# Shows these jobs as squeue does.
show_queue() {
    local jobs
    jobs=$(queued | cut -d ' ' -f 1 | sort -u | paste -s -d ,)
    [[ -z $jobs ]] || squeue --jobs="$jobs" --format='%.18i %.9P %.12j %.10T %.10M %.10l %.4C %.8m %R'
}

# Prints the MiB of memory that an element requests, by the option of sbatch that the site requires.
requested_memory() { if [[ -s .memory ]]; then cat .memory; else printf '%s\n' "$memory_mib"; fi; }

# MISSING BATCHES
