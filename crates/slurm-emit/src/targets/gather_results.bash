# Writes the output file of each scan as soon as the scan is complete, from the results that process $1 writes to file $2.
# Summaries go to file $3. Sets $gather to the process of gather, which ends with process $1.
gather_results() {
    tail --follow --lines=+1 --sleep-interval=0.2 --pid="$1" -- "$2" |
        "$bin/gather" "${gather_arguments[@]}" --complete-only > "$3" &
    gather=$!
}
