#!/bin/bash
# Runs the matrix on the nodes of a Slurm job: sbatch slurm.sh
#SBATCH --job-name=parity
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem-per-cpu=3G
#SBATCH --time=02:00:00
set -euo pipefail

# An environment on a file system of all nodes, with `pip install 'onnx-parity[ray]'`.
source "${PARITY_VENV:-$SLURM_SUBMIT_DIR/.venv}/bin/activate"
cd "$SLURM_SUBMIT_DIR"
# Workers have the machine to themselves.
export RAY_worker_niceness=0

nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes%%$'\n'*}
port=${PARITY_PORT:-6379}

srun --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --port="$port" --num-cpus="$SLURM_CPUS_PER_TASK" --include-dashboard=false --block &
# The other nodes try until the head answers.
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
    srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$head" \
        bash -c "until ray start --address='$head:$port' --num-cpus='$SLURM_CPUS_PER_TASK' --block; do sleep 2; done" &
fi

# The driver needs a raylet beside it, so that it runs on the head.
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
    bash -c "until ray status --address='$head:$port' >/dev/null; do sleep 2; done; \
             parity run --on '$head:$port' ${PARITY_OPTIONS:---tier full}"
