#!/bin/sh
# Takes back what cxl-online.sh made: cxl-offline.sh RECORD. Fails, with the record kept, where memory is in use that
# the kernel cannot move away.
set -eu
record=$1
bus=${CXL_BUS:-/sys/bus/cxl}
dax_bus=${DAX_BUS:-/sys/bus/dax}

# All memory blocks of the node of a DAX device, which are all of its own node.
offline() {
    node=$(cat "$1/target_node")
    for state in /sys/devices/system/node/node"$node"/memory*/state; do
        if [ -f "$state" ] && [ "$(cat "$state")" != offline ]; then
            echo offline > "$state" || {
                echo "$state: memory of node $node is in use and cannot be moved" >&2
                exit 1
            }
        fi
    done
}

for dax in "$dax_bus"/devices/dax*; do
    [ -e "$dax" ] || continue
    name=$(basename "$dax")
    path=$(readlink -f "$dax")
    while read -r kind made rest; do
        case $kind in
            dax) [ "$made" = "$name" ] || continue ;;
            region) case $path in */"$made"/*) ;; *) continue ;; esac ;;
        esac
        if [ "$(basename "$(readlink -f "$dax/driver")")" = kmem ]; then
            offline "$dax"
            echo "$name" > "$dax_bus/drivers/kmem/unbind"
        fi
        [ "$kind" != dax ] || echo "$name" > "$dax_bus/drivers/device_dax/bind"
    done < "$record"
done
while read -r kind region root decoder; do
    [ "$kind" = region ] || continue
    [ -e "$bus/devices/$region" ] || continue
    [ ! -e "$bus/devices/$region/driver" ] || echo "$region" > "$bus/drivers/cxl_region/unbind"
    echo 0 > "$bus/devices/$region/commit" || true # not committed yet
    echo "$region" > "$bus/devices/$root/delete_region"
    echo 0 > "$bus/devices/$decoder/dpa_size"
done < "$record"
rm -f "$record"
