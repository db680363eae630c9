#!/bin/bash
# Runs the matrix on one host that is reached by SSH, and brings the run home while it goes on.
#
#   bash ssh.sh start HOST --tier full     # with options of parity run; it goes on when this terminal is closed
#   bash ssh.sh follow HOST                # fills runs/ here until the run has ended
#
# The host has a folder with an environment: ssh HOST 'cd parity && python3 -m venv .venv && .venv/bin/pip install
# "onnx-parity[ray]"'. Without Ray, leave out `--on ray` below: then the processors of the host are used as they are
# here.
set -euo pipefail

action=${1:?start or follow} host=${2:?the host}
shift 2
folder=${PARITY_FOLDER:-parity}

case $action in
    start)
        rsync -a --delete --exclude .venv --exclude runs --exclude .git --exclude 'parity.*' ./ "$host:$folder/"
        options=${1:+$(printf ' %q' "$@")}
        # The folder and the log exist before the run does: whoever follows it at once finds them.
        run="nohup .venv/bin/parity run --on ray$options >parity.log 2>&1 & echo \$! >parity.pid"
        ssh "$host" "cd $folder && mkdir -p runs && : >parity.log && { $run; }"
        ;;
    follow)
        going=true
        while $going; do
            ssh "$host" "kill -0 \$(cat $folder/parity.pid)" 2>/dev/null || going=false
            rsync -a "$host:$folder/runs/" runs/
            ssh "$host" "tail -n 1 $folder/parity.log"
            ! $going || sleep "${PARITY_LOOKS:-10}"
        done
        ;;
    *)
        echo "start or follow, not $action" >&2
        exit 2
        ;;
esac
