# One ./submit at a time. ./cancel finds its process by the number in .lock.
exec 9>> .lock
if ! flock --nonblock 9; then
    owner=$(< .lock)
    if [[ -n $owner && -e /proc/$owner ]]; then
        printf 'submit: another submit is at work here (process %s): wait until it ends, or end it with ./cancel\n' \
            "$owner" >&2
        exit 2
    fi
    # Programs that a submit started can hold its lock for a moment after it has ended.
    if ! flock --timeout 10 9; then
        printf 'submit: programs of an earlier submit (process %s) are still at work: wait; fuser .lock lists them\n' \
            "$owner" >&2
        exit 2
    fi
fi
printf '%s\n' "$$" > .lock
rm -f .stop
