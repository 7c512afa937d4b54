# The batches of a cut that have a task which is still to do, a path a line. The parts are asked for it, and not what
# earlier runs have written of themselves: parts may have been lost since.
to_do() {
    local ids
    ids=$("$bin/gather" --plan plan.jsonl --missing | cut -d , -f 3) || return
    [[ -z $ids ]] || grep --recursive --files-with-matches --fixed-strings --file=<(printf '%s\n' "$ids") "$1" | sort
}
