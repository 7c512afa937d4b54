# Shows how much of the plan is done, how fast the work goes, and how long the rest will take. Arguments: a line about the
# jobs, or nothing; and the number of processes that write a file of results at the same time. Fails with 2 if gather can't
# tell, and with 1 unless each output file is complete.
progress() {
    local record recent status=0
    record=$("$bin/gather" "${count_arguments[@]}" --plan plan.jsonl --count-done) || status=$?
    ((status <= 1)) || return 2

    # The speed is that of the latest results alone: all of them may be gigabytes. A file of results is named
    # batch.job_element.start.jsonl, where start is in seconds since 1970.
    recent=$(find results -name '*.jsonl' -size +0 -printf '%T@ %f\n' | sort --reverse --numeric-sort)
    awk -v record="$record" -v jobs="$1" -v processes="$2" '
        function count(name) {
            match(record, "\"" name "\":[0-9]+")
            return substr(record, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0
        }
        function human(bytes) {
            if (bytes < 1e6) return sprintf("%.0f kB", bytes / 1e3)
            if (bytes < 1e9) return sprintf("%.0f MB", bytes / 1e6)
            return sprintf("%.2f GB", bytes / 1e9)
        }
        NF && NR <= 20 {
            split($2, part, ".")
            if (part[3] ~ /^[0-9]+$/) seconds += $1 - part[3]
            file = "results/" $2
            while ((getline line < file) > 0) {
                if (line ~ /^{"type":"fail"/) failures++
                else if (line ~ /"skipped":false/ && match(line, /"read_bytes":[0-9]+/))
                    bytes += substr(line, RSTART + 13, RLENGTH - 13)
            }
            close(file)
        }
        END {
            printf "files  %d of %d complete, %d of %d frames\n", count("finals_complete"), count("finals"),
                count("frames_done"), count("frames")
            if (count("frames_lost")) {
                match(record, /"lost":{[^}]*}/)
                kinds = substr(record, RSTART + 8, RLENGTH - 9)
                gsub(/"/, "", kinds); gsub(/:/, " ", kinds); gsub(/,/, ", ", kinds)
                printf "lost   %d frames without a pattern: %s; see summary.jsonl\n", count("frames_lost"), kinds
            }
            printf "tasks  %d of %d done, %d to do", count("tasks_done"), count("tasks"), count("tasks") - count("tasks_done")
            print failures ? sprintf(" (%d failed lately)", failures) : ""
            if (jobs != "") printf "jobs   %s\n", jobs
            if (bytes > 0 && seconds > 0) {
                speed = bytes / seconds * processes
                printf "speed  %s/s, %d frames/s; the rest takes about %d min\n", human(speed),
                    speed * count("frames") / (count("bytes") + 1), count("bytes_left") / speed / 60 + 0.999
            }
        }' <<< "$recent"
    return "$status"
}
