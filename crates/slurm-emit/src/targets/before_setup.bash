# --setup: with the options that a shell has by itself.
shell_options=$(set +o)
# In $(), -e is off.
[[ $- != *e* ]] || shell_options+=$'\nset -e'
set +e +u +o pipefail
trap 'printf "%s: ended in a line of --setup\n" "${0##*/}" >&2; exit 2' EXIT
