if [[ ! -s plan.jsonl ]]; then
    printf 'nothing to submit: the plan has no tasks\n'
    exit
fi
