# Waits until all processes have ended. A signal ends a wait, but not the processes.
while
    wait "$pool"
    kill -0 "$pool" 2> /dev/null
do :; done
stop_if_cancelled
