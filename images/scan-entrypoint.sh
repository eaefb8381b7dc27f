#!/bin/sh
# What a container of the scan image runs. Spark on Kubernetes names a role first, as it does with Spark's own image:
#
#   executor                the driver has put everything else into the environment
#   driver ARGUMENT ...     arguments of spark-submit: from its cluster mode, or from the spark-operator
#
# Anything else is a command line of rackspan.
set -eu

case "${1:-}" in
executor)
    # SPARK_JAVA_OPT_0, _1, ... each hold one of the JVM's options, which may contain spaces.
    set --
    number=0
    while eval "option=\${SPARK_JAVA_OPT_$number:-}" && [ -n "$option" ]; do
        set -- "$@" "$option"
        number=$((number + 1))
    done
    exec "$JAVA_HOME/bin/java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*:${SPARK_CLASSPATH:-}" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client \
        "$@"
    ;;
*)
    exec rackspan "$@"
    ;;
esac
