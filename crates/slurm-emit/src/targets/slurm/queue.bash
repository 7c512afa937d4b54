# shellcheck shell=bash disable=SC2034  # sourced by the scripts beside it, which use what is set here

# SETTINGS

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

# Variables of a job that this is called from, and a user's own defaults, would change what SLURM is told and asked here.
for name in "${!SLURM_@}" "${!SBATCH_@}" "${!SQUEUE_@}"; do
    [[ $name == SLURM_CONF ]] || unset "$name"
done

# The cut of the plan into batches that counts is the last one: ./resubmit makes finer ones.
cuts=(batches/[0-9]*/)
cut=${cuts[-1]%/}

# What ./submit gave to SLURM and is waiting or running: job, element (of an array) and state, one a line.
queued() {
    [[ -s submitted ]] || return 0
    squeue --noheader --array --user="$(id -un)" --format='%F %K %T' | awk 'NR == FNR { ours[$1]; next } $1 in ours' submitted -
}

# What squeue says of them.
show_queue() {
    local jobs
    jobs=$(queued | cut -d ' ' -f 1 | sort -u | paste -s -d ,)
    [[ -z $jobs ]] || squeue --user="$(id -un)" --jobs="$jobs" --format='%.18i %.9P %.12j %.10T %.10M %.10l %.4C %.8m %R'
}

# MiB that an element is given, in the way that the site wants them to be asked for.
asked_memory() { if [[ -s .memory ]]; then cat .memory; else printf '%s\n' "$memory_mib"; fi; }

# TO DO
