# EMPTY PLAN
# One ./submit at a time. ./cancel finds its process by the number and the host name in .lock.
if ! exec 9>> .lock; then
    printf 'submit: %s can not be written: see the message above; slurm-emit --dir writes scripts of your own\n' "$PWD" >&2
    exit 2
fi
# bash keeps a HOSTNAME that it inherits, as from the login node.
this_host=$(uname -n)
# Prints the process that has or had the lock. Succeeds if it is here, or may be on another machine.
lock_owner() {
    local process='' host=''
    read -r process host < .lock
    printf '%s\n' "process ${process:-unknown}${host:+ on $host}"
    [[ -z $process || ${host:-$this_host} != "$this_host" || -e /proc/$process ]]
}
# ./cancel holds it for a moment, too.
if ! flock --timeout 1 9; then
    # Programs that a submit started can hold its lock for a moment after it has ended.
    if lock_owner > /dev/null || ! flock --timeout 10 9; then
        if owner=$(lock_owner); then
            printf 'submit: another submit is at work here (%s): wait until it ends, or end it with ./cancel\n' "$owner" >&2
        else
            printf 'submit: programs of an earlier submit (%s) are still at work: wait, or end them with ./cancel\n' \
                "$owner" >&2
        fi
        exit 2
    fi
fi
rm -f .stop
printf '%s %s\n' "$$" "$this_host" > .lock

# Ends ./submit if ./cancel, or INT from the keyboard, asked for it.
stop_if_cancelled() {
    [[ -e .stop ]] || return 0
    printf 'submit: cancelled; results so far are kept, and ./submit continues\n' >&2
    exit 75
}
