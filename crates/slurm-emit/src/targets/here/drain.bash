# Until the end, through TERM.
while
    wait "$pool"
    kill -0 "$pool" 2> /dev/null
do :; done
[[ ! -e .stop ]] || exit 75
