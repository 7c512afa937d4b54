# Prints the batches of directory $1 that have a missing task, one path per line. gather looks for the parts themselves,
# because parts that earlier results tell of may have been lost since.
missing_batches() {
    local ids
    ids=$("$bin/gather" --plan plan.jsonl --missing "${missing_arguments[@]}" | cut -d , -f 3) || return
    [[ -z $ids ]] ||
        grep --recursive --include='*.jsonl' --files-with-matches --fixed-strings --file=<(printf '%s\n' "$ids") "$1" | sort
}
