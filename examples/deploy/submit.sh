#!/bin/sh
# Three ways to submit a program that uses format("hiveacid") to a cluster. Programs that use only acid.sql, spark.sql and
# foreachBatch need --archives and PYSPARK_PYTHON for the driver alone, and in client mode not at all.
set -eu
program="$1"

# The environment: a virtual environment of the executors' Python version, packed.
pack() {
    python3 -m venv environment
    environment/bin/pip install venv-pack 'hiveacid[postgres,streaming]'
    environment/bin/venv-pack --force -p environment -o environment.tar.gz
}

case "${2:-yarn-cluster}" in
yarn-cluster) # the driver runs on a machine of the cluster, in the unpacked archive
    pack
    spark-submit --master yarn --deploy-mode cluster --archives environment.tar.gz#environment \
        --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python \
        --conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python "$program"
    ;;
yarn-client) # the driver runs here, where the directory environment is the same as in the archive
    pack
    PYSPARK_DRIVER_PYTHON=environment/bin/python PYSPARK_PYTHON=./environment/bin/python \
        spark-submit --master yarn --deploy-mode client --archives environment.tar.gz#environment "$program"
    ;;
py-files) # pyarrow and the driver of the store are installed on the machines; hiveacid itself is a zip
    (cd "$(python3 -c 'import hiveacid, pathlib; print(pathlib.Path(hiveacid.__file__).parents[1])')" &&
        python3 -m zipfile -c "$OLDPWD/hiveacid.zip" hiveacid)
    spark-submit --master "${MASTER:?the master}" --py-files hiveacid.zip "$program"
    ;;
*)
    echo "usage: submit.sh PROGRAM [yarn-cluster|yarn-client|py-files]" >&2
    exit 2
    ;;
esac
