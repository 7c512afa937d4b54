# Prints the CPUs that this process may run on, as far as its affinity mask allows, one per line.
list_cpus() {
    local ranges range cpu
    ranges=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' /proc/self/status)
    for range in ${ranges//,/ }; do
        for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do printf '%s\n' "$cpu"; done
    done
}

# Prints the number of CPUs that each control group of this process allows; nothing without a quota.
list_cpu_quotas() {
    local controllers group directory quota period
    while IFS=: read -r _ controllers group; do
        case ,$controllers, in
            ,,) directory=/sys/fs/cgroup ;;
            *,cpu,*) directory=/sys/fs/cgroup/cpu ;;
            *) continue ;;
        esac
        while group=${group%/}; do
            quota='' period=''
            if [[ -e $directory$group/cpu.max ]]; then
                read -r quota period < "$directory$group/cpu.max" || :
            elif [[ -e $directory$group/cpu.cfs_quota_us ]]; then
                quota=$(< "$directory$group/cpu.cfs_quota_us") period=$(< "$directory$group/cpu.cfs_period_us")
            fi
            if [[ $quota =~ ^[0-9]+$ && $period =~ ^[1-9][0-9]*$ ]]; then printf '%s\n' $((quota / period)); fi
            [[ -n $group ]] || break
            group=${group%/*}
        done
    done < /proc/self/cgroup
}

# Prints the number of CPUs that this process may use: the least of what its job, its affinity mask and its control groups
# allow, and at least 1.
count_cpus() {
    local count limit
    count=$(list_cpus | wc -l)
    for limit in $(list_cpu_quotas) "${SLURM_CPUS_PER_TASK:-$count}"; do
        if ((limit < count)); then count=$limit; fi
    done
    printf '%s\n' $((count > 0 ? count : 1))
}

# Sets the sizes that no flag gave, so that all engines together have as many threads as there are CPUs. Threads that a flag
# gave are reduced, too, if there are fewer CPUs.
fit_to_machine() {
    local cpus=$1
    : "${workers:=$((cpus < 4 ? cpus : 4))}"
    cpus=$((cpus > workers ? cpus / workers : 1))
    : "${engines:=$((cpus < 8 ? cpus : 8))}"
    cpus=$((cpus > engines ? cpus / engines : 1))
    if [[ -z $threads ]] || ((threads > cpus)); then threads=$cpus; fi
}
fit_to_machine "$(count_cpus)"
