#!/bin/sh
# What Strimzi runs in the init container of a broker, where this image is its brokerRackInitImage: the published rack of
# the node, for ${strimzidir:/opt/kafka/init:rack.id} in the broker's properties.
set -eu
if [ -n "${EXTERNAL_ADDRESS:-}" ]; then
    echo "listeners of type nodeport need the addresses that Strimzi's own init image writes" >&2
    exit 2
fi
rack=$(rackspan rack-id --nodes-file "${RACKS_FILE:-/mnt/racks/nodes}" --node "$NODE_NAME" --wait "${RACKS_WAIT:-60s}")
# Without a newline: it would be part of the rack.
printf %s "$rack" > "${INIT_FOLDER:-/opt/kafka/init}/rack.id"
