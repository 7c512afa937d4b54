# The output files of all scans, and the exit status of the whole plan. The summary gets a name of its own first, because
# another run may write one at the same time.
find . -maxdepth 1 -name '.summary.*.jsonl' -mtime +1 -delete
summary=.summary.${HOSTNAME:-host}.$$.jsonl
"$bin/gather" "${gather_arguments[@]}" --plan plan.jsonl < /dev/null > "$summary"
status=$?
# A gather that a signal ended has not seen all scans.
if ((status < 128)); then mv "$summary" summary.jsonl; else rm -f "$summary"; fi
exit "$status"
