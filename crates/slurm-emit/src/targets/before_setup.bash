# --setup: with the options that a shell has by itself.
shell_options=$(set +o)
set +e +u +o pipefail
trap 'printf "%s: --setup ended the script\n" "${0##*/}" >&2; exit 2' EXIT
