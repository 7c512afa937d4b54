# One at a time; ./cancel finds this one by what stands in .lock.
exec 9>> .lock
if ! flock --nonblock 9; then
    printf 'submit: another submit is at work\n' >&2
    exit 2
fi
printf '%s\n' "$$" > .lock
rm -f .stop
