# Waits until all processes have ended. A TERM ends a wait, but not the processes.
while
    wait "$pool"
    kill -0 "$pool" 2> /dev/null
do :; done
if [[ -e .stop ]]; then
    printf 'submit: cancelled; results so far are kept, and ./submit continues\n' >&2
    exit 75
fi
