# Puts each scan together as soon as it is complete, from the results that a process of ours writes to a file: $gather
# is the process that does, and ends with it.
gather_along() {
    tail --follow --lines=+1 --sleep-interval=0.2 --pid="$1" -- "$2" | "$bin/gather" ${allow_missing:+"$allow_missing"} --complete-only > "$3" &
    gather=$!
}
