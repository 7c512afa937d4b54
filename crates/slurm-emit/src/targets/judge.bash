"$bin/gather" ${allow_missing:+"$allow_missing"} --plan plan.jsonl < /dev/null > .summary.jsonl
status=$?
mv .summary.jsonl summary.jsonl
exit "$status"
