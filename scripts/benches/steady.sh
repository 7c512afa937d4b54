# Frames a second of the CPU engine and of its peers in the steady state, for the benches that compare them. Sourced in the checkout's root;
# $dataset, $frames, $few and $repeats are the bench's.
# shellcheck shell=bash disable=SC2154
# shellcheck source=scripts/benches/common.sh
source scripts/benches/common.sh

# make_dataset DETECTOR [OPTION]...: fills $dataset with $frames frames, all tasks, and one of $few frames.
make_dataset() {
    local detector=$1
    shift
    [[ -e $dataset/made ]] || {
        rm -rf "$dataset"
        sample-dataset "$dataset" --detector "$detector" --scans 1 --frames $frames --frames-per-file $frames "$@" > /dev/null
        touch "$dataset/made"
    }
    plan() {
        scan-find "$dataset/RAW_DATA" |
            plan-split --poni "$dataset"/*.poni --mask "$dataset/mask.edf" --npt 1000 --unit q_nm^-1 --split bbox \
                --error-model poisson --by "$1" --out "$dataset/out"
    }
    plan bytes=2G > "$dataset/all.jsonl"
    plan frames=$few | sed -n 1p > "$dataset/few.jsonl"
}

# peer KIND THREADS: its frames a second, the median of $repeats.
peer() {
    OMP_NUM_THREADS=$2 "$AZPIPE_PEERS/bin/python" scripts/benches/peers.py "$1" "$dataset" "$repeats" | summary | cut -d ' ' -f 1
}

# ours ROUNDS THREADS: sets the median, the lowest and the highest of our rates, of so many times all frames.
ours() {
    local rounds=$1
    for ((round = 0; round < rounds; round++)); do cat "$dataset/all.jsonl"; done > "$dataset/rounds.jsonl"
    read -r median lowest highest < <(rates "$dataset/rounds.jsonl" "$dataset/few.jsonl" $((rounds * frames - few)) \
        "$2" "$repeats" | summary)
}
