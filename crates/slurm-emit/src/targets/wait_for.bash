# Waits for a process that this script started, and sets $status to its exit status. A signal ends a wait, but not the
# process.
wait_for() {
    local before
    while
        before=$signals
        wait "$1"
        status=$?
        [[ $signals != "$before" ]]
    do :; done
}
