# shellcheck shell=bash
# Sourced by scripts/package and scripts/check-packages. Sets, for $architecture:
#   debian_architecture   Debian's name for it
#   emulator              the command that runs one of its programs here; empty if this machine does
# shellcheck disable=SC2034,SC2154
case $architecture in
    x86_64) debian_architecture=amd64 ;;
    aarch64) debian_architecture=arm64 ;;
    ppc64le) debian_architecture=ppc64el ;;
    *) debian_architecture=$architecture ;;
esac
emulator=()
# The C library is Debian's package libc6-arm64-cross.
[[ $architecture == "$(uname -m)" ]] || emulator=("qemu-$architecture" -L "/usr/$architecture-linux-gnu")
