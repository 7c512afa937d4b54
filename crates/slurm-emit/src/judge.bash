"$bin/gather" --plan plan.jsonl > .summary.jsonl
status=$?
mv .summary.jsonl summary.jsonl
exit "$status"
