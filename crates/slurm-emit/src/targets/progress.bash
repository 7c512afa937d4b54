# Shows how much of the plan is done, how fast the work goes, and how long the rest will take. Arguments: a line about the
# jobs, or nothing; and the number of processes that write a file of results at the same time.
progress() {
    local missing
    # Of the missing tasks: id and stored bytes, one per line.
    missing=$("$bin/gather" --plan plan.jsonl --missing | awk 'match($0, /"bytes":[0-9]+/) {
        bytes = substr($0, RSTART + 8, RLENGTH - 8)
        split($0, field, ",")
        print field[3], bytes
    }') || return

    # A file of results is named batch.job_element.start.jsonl, where start is in seconds since 1970.
    find results -name '*.jsonl' -printf '%T@ %f\n' | awk \
        -v total="$(wc -l < plan.jsonl)" -v jobs="$1" -v processes="$2" '
        function human(bytes) {
            if (bytes < 1e6) return sprintf("%.0f kB", bytes / 1e3)
            if (bytes < 1e9) return sprintf("%.0f MB", bytes / 1e6)
            return sprintf("%.2f GB", bytes / 1e9)
        }
        NR == FNR { if (NF) { missing[$1]; count++; left += $2 } next }
        {
            split($2, part, ".")
            if (part[3] ~ /^[0-9]+$/) seconds += $1 - part[3]
            file = "results/" $2
            while ((getline line < file) > 0) {
                split(line, field, ",")
                if (line ~ /^{"type":"fail"/) { if (field[3] in missing) failed[field[3]] }
                else if (line ~ /"skipped":false/ && match(line, /"read_bytes":[0-9]+/))
                    bytes += substr(line, RSTART + 13, RLENGTH - 13)
            }
            close(file)
        }
        END {
            for (id in failed) failures++
            printf "tasks  %d of %d done, %d to do", total - count, total, count
            print failures ? sprintf(" (%d failed before)", failures) : ""
            if (jobs != "") printf "jobs   %s\n", jobs
            if (bytes > 0 && seconds > 0) {
                speed = bytes / seconds * processes
                printf "speed  %s/s; the rest takes about %d min\n", human(speed), left / speed / 60 + 0.999
            }
        }' <(printf '%s\n' "$missing") -
}
