# Succeeds if each output file of the plan is complete and of the recipe of the plan.
all_files_are_complete() {
    "$bin/gather" "${count_arguments[@]}" --plan plan.jsonl --count-done > /dev/null
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
