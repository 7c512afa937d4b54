pool=''
# Asks the pool to end: no more batches are begun, and frames in progress are finished. What this script starts in the background
# ignores INT, as bash lets it.
stop_pool() {
    touch .stop
    [[ -z $pool ]] || "${end_pool[@]}" "$pool" 2> /dev/null
}
trap stop_pool TERM INT
