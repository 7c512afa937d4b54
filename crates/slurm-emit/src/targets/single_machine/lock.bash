# One ./submit at a time. ./cancel finds its process by the number in .lock.
exec 9>> .lock
if ! flock --nonblock 9; then
    printf 'submit: another submit is at work here (process %s): wait until it ends, or end it with ./cancel\n' \
        "$(< .lock)" >&2
    exit 2
fi
printf '%s\n' "$$" > .lock
rm -f .stop
