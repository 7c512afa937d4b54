# Notes a job that was submitted: note_job JOB WHAT. ./status and ./cancel would not know one that is not noted, and the next
# ./submit would submit it again: it is taken back.
note_job() {
    local size=0
    [[ ! -e submitted ]] || size=$(stat --dereference --format=%s submitted) || size=''
    if printf '%s %s, %s\n' "$1" "$2" "$(date '+%F %T')" >> submitted; then return; fi
    # A line for which there was no room may be there in part, with the number of another job.
    [[ -z $size ]] || truncate --no-create --size="$size" submitted || true
    "$cancel_job" "$1" || printf '%s: %s %s failed: cancel this job by hand\n' "${0##*/}" "$cancel_job" "$1" >&2
    die "$PWD/submitted can not be written: see the message above; job $1 was taken back: run ./${0##*/} again when it can"
}
