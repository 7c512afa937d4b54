# What the benches share: the set-up, the build, and ways to tell time. Sourced in the checkout's root.
# shellcheck shell=bash
shopt -s inherit_errexit

environment=$(scripts/setup tests)
eval "$environment"
cargo build --quiet --locked --release --bins --package azpipe
built=$(cd "${CARGO_TARGET_DIR:-target}/release" && pwd)
PATH=$built:$PATH
work=$(mkdir -p "$built/../bench" && cd "$built/../bench" && pwd)

# peer_package MODULE REQUIREMENT: a Python package that benches compare with and tests do not: into the peers' environment, where it misses. A
# bench does without what can't be had.
peer_package() {
    "$AZPIPE_PEERS/bin/python" -c "import $1" 2> /dev/null ||
        "$AZPIPE_PEERS/bin/python" -m pip install --quiet --disable-pip-version-check "$2" >&2 ||
        printf 'bench: no %s: its column is 0\n' "$2" >&2
}

# The machine, in a line.
machine() {
    printf '%s, %s of %s CPUs, %s; %s\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
        "$(nproc --all)" "$(grep -o -w -E 'avx2|avx512f|gfni' /proc/cpuinfo | sort -u | paste -s -d ' ')" "$(date +%F)"
}

# seconds COMMAND...: how long it takes by the clock; where BENCH_CPU_TIME is set, in CPU time of all of its threads.
seconds() {
    local start=$EPOCHREALTIME TIMEFORMAT='%U %S'
    if [[ -n ${BENCH_CPU_TIME:-} ]]; then
        { time "$@" 2>&4; } 4>&2 2>&1 | awk '{ print $1 + $2 }'
        return
    fi
    "$@"
    awk -v start="$start" -v stop="$EPOCHREALTIME" 'BEGIN { print stop - start }'
}

# of EXPRESSION [NAME=VALUE]...: a number that awk computes.
of() {
    local expression=$1 values=()
    shift
    for value; do values+=(-v "$value"); done
    awk "${values[@]}" "BEGIN { print $expression }"
}

# summary: of the numbers on stdin, a line each: the median, the lowest and the highest.
summary() {
    sort --general-numeric-sort | awk '{ all[NR] = $1 } END { if (NR) print all[int((NR + 1) / 2)], all[1], all[NR] }'
}

# integrate THREADS < TASKS: one run of $engine, cpu where none is set, with $integrate_flags; nothing found done but the matrix.
integrate_flags=()
integrate() {
    rm -rf "$work/out"
    ai-integrate --quiet --force --engine "${engine:-cpu}" --threads "$1" "${integrate_flags[@]}" --out "$work/out" --cache "$work/matrix" > /dev/null
}

# rates TASKS-LONG TASKS-SHORT FRAMES THREADS REPEATS: frames a second of the steady state, a line each: what the long run does
# more than the short one, in the time that it takes longer. So what a run needs to start is not counted.
rates() {
    local long short
    # What a first run makes, the matrix and a device's kernels, is kept for all that are timed.
    integrate "$4" < "$2"
    for ((repeat = 0; repeat < $5; repeat++)); do
        short=$(seconds integrate "$4" < "$2")
        long=$(seconds integrate "$4" < "$1")
        of 'frames / (long - short)' frames="$3" long="$long" short="$short"
    done
    rm -rf "$work/out"
}
