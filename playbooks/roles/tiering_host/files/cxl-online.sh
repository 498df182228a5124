#!/bin/sh
# Brings memory of CXL devices online as system RAM: cxl-online.sh RECORD
#
# Every memory device with volatile capacity that no region uses gets a region of its own (one way, no interleaving),
# and every DAX device of a CXL region goes to the kernel's kmem driver. What is made is written to RECORD, a line each
# (`region NAME`, `dax NAME`), from which cxl-offline.sh takes it back. Prints `changed` where anything was made.
# Needs nothing but a shell, since hosts often lack the cxl and daxctl commands.
set -eu
record=$1
bus=${CXL_BUS:-/sys/bus/cxl}
dax_bus=${DAX_BUS:-/sys/bus/dax}
changed=

problem() {
    echo "$1" >&2
    exit 1
}

remember() {
    mkdir -p "$(dirname "$record")"
    echo "$1" >> "$record"
    sync "$record" 2>/dev/null || sync
    changed=yes
}

for module in cxl_acpi cxl_pci cxl_mem dax_cxl kmem; do
    modprobe "$module" 2>/dev/null || true # built in, or there is no CXL here
done
[ -d "$bus/devices" ] || problem "$bus: this kernel has no CXL support, or the firmware tells of no CXL"

# The decoder of an endpoint whose device it is, when nothing is mapped by it yet.
free_decoder() {
    for endpoint in "$bus"/devices/endpoint*; do
        [ "$(basename "$(readlink -f "$endpoint/uport")")" = "$1" ] || continue
        for decoder in "$endpoint"/decoder*; do
            if [ -f "$decoder/dpa_size" ] && [ "$(($(cat "$decoder/dpa_size")))" = 0 ]; then
                basename "$decoder"
                return
            fi
            return # regions are made in order: a used first decoder has what there is
        done
    done
}

# The first window of the platform that takes volatile memory.
root_decoder() {
    for decoder in "$bus"/devices/decoder0.*; do
        if [ -f "$decoder/create_ram_region" ]; then
            basename "$decoder"
            return
        fi
    done
}

for device in "$bus"/devices/mem*; do
    [ -f "$device/ram/size" ] || continue
    size=$(cat "$device/ram/size")
    [ "$((size))" != 0 ] || continue
    decoder=$(free_decoder "$(basename "$device")")
    [ -n "$decoder" ] || continue
    root=$(root_decoder)
    [ -n "$root" ] || problem "$device: no CXL window of this platform takes volatile memory"
    region=$(cat "$bus/devices/$root/create_ram_region")
    remember "region $region $root $decoder"
    echo "$region" > "$bus/devices/$root/create_ram_region"
    echo 256 > "$bus/devices/$region/interleave_granularity"
    echo 1 > "$bus/devices/$region/interleave_ways"
    echo ram > "$bus/devices/$decoder/mode"
    echo "$size" > "$bus/devices/$decoder/dpa_size"
    echo "$size" > "$bus/devices/$region/size"
    echo "$decoder" > "$bus/devices/$region/target0"
    echo 1 > "$bus/devices/$region/commit" || problem "$region: the kernel does not commit it; see dmesg"
    echo "$region" > "$bus/drivers/cxl_region/bind"
done

# The DAX device of a new region comes by itself, a moment later, and often goes to kmem by itself, too.
tries=50
while [ -n "$changed" ] && [ "$tries" -gt 0 ] && ! ls "$dax_bus"/devices/dax* >/dev/null 2>&1; do
    sleep 0.1
    tries=$((tries - 1))
done
for dax in "$dax_bus"/devices/dax*; do
    [ -e "$dax" ] || continue
    case $(readlink -f "$dax") in */region*) ;; *) continue ;; esac
    driver=$(basename "$(readlink -f "$dax/driver" 2>/dev/null)" 2>/dev/null || true)
    [ "$driver" != kmem ] || continue
    name=$(basename "$dax")
    remember "dax $name"
    [ "$driver" != device_dax ] || echo "$name" > "$dax_bus/drivers/device_dax/unbind"
    echo "$name" > "$dax_bus/drivers/kmem/new_id"
done

# Movable, so that it can be taken offline again.
for dax in "$dax_bus"/devices/dax*; do
    [ -f "$dax/target_node" ] || continue
    for state in /sys/devices/system/node/node"$(cat "$dax/target_node")"/memory*/state; do
        if [ -f "$state" ] && [ "$(cat "$state")" = offline ]; then
            echo online_movable > "$state"
            changed=yes
        fi
    done
done
[ -z "$changed" ] || echo changed
