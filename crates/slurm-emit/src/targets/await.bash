# Waits for a process of ours, and leaves its status in $status. A signal ends a wait, but not the process.
await() {
    local before
    while
        before=$signals
        wait "$1"
        status=$?
        [[ $signals != "$before" ]]
    do :; done
}
