#!/bin/sh
# First process of a test host, in namespaces of its own: builds the root and becomes sshd.
# boot.sh NAME FOLDER SSHD_TREE; FOLDER holds sys/ and proc-sys/, what the host takes for its kernel's files.
set -eu
name=$1 folder=$2 tree=$3
root=$folder/root
hostname "$name"
mount -t tmpfs -o mode=755 scratch "$folder/overlay"
mkdir "$folder/overlay/upper" "$folder/overlay/work"
mount -t overlay -o "lowerdir=/,upperdir=$folder/overlay/upper,workdir=$folder/overlay/work" root "$root"
mount -t proc proc "$root/proc"
# Nothing of the machine's kernel can be set from here: these are plain files of the test.
mount --bind "$folder/sys" "$root/sys"
mount --bind "$folder/proc-sys" "$root/proc/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty; do
    : > "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for place in run tmp root var/lib dev/shm; do
    mount -t tmpfs -o mode=755 scratch "$root/$place"
done
chmod 1777 "$root/tmp" "$root/dev/shm"
mkdir -p "$root/run/sshd" "$root/root/.ssh" "$root/usr/lib/openssh" "$root/etc/ssh"
cp "$tree/usr/sbin/sshd" "$root/usr/sbin/sshd"
for library in $(find "$tree" -name 'libwrap.so*'); do cp -P "$library" "$root/usr/lib/"; done
grep -q '^sshd:' "$root/etc/passwd" || echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >> "$root/etc/passwd"
cp "$folder/authorized_keys" "$root/root/.ssh/authorized_keys"
chmod 700 "$root/root" "$root/root/.ssh"
chmod 600 "$root/root/.ssh/authorized_keys"
cp "$folder/host_key" "$root/etc/ssh/test_host_key"
chmod 600 "$root/etc/ssh/test_host_key"
cat > "$root/etc/ssh/test_config" <<'END'
HostKey /etc/ssh/test_host_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile none
Subsystem sftp internal-sftp
MaxSessions 50
MaxStartups 100
END
ip link set lo up
exec chroot "$root" /usr/sbin/sshd -D -e -f /etc/ssh/test_config
