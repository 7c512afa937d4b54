
[[ $(trap -p EXIT) != *'ended in a line of --setup'* ]] || trap - EXIT
eval "$shell_options"
