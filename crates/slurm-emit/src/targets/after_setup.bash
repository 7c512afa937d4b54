[[ $(trap -p EXIT) != *'--setup ended the script'* ]] || trap - EXIT
eval "$shell_options"
