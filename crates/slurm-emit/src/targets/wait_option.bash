# Prints a number of a record of gather --count-done: progress_of RECORD NAME
progress_of() { grep --only-matching --perl-regexp "\"$2\":\\K[0-9]+" <<< "$1"; }

# Succeeds if each output file of the plan is complete and of the recipe of the plan.
all_files_are_complete() {
    local record
    record=$("$bin/gather" --plan plan.jsonl --count-done) || return
    (($(progress_of "$record" finals) == $(progress_of "$record" finals_done)))
}

# With --wait: waits until the jobs have ended, and succeeds if each output file is complete.
wait=''
arguments=()
for argument; do
    if [[ $argument == --wait ]]; then wait=yes; else arguments+=("$argument"); fi
done
set -- "${arguments[@]}"
finish() {
    [[ -n $wait ]] || exit 0
    exec 9>&-
    wait_for_jobs
    all_files_are_complete && exit
    printf 'submit: the jobs have ended, and not all output files are complete: see ./status and logs\n' >&2
    exit 1
}
