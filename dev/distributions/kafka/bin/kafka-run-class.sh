#!/bin/sh
# A class of Kafka's with the heap that the environment names, in a JVM for small machines.
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} -Xss256k -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError \
    -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -cp '/opt/kafka/libs/*' "$@"
