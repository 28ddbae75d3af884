// Package livemove moves the processes of a running container into another slice, without involving
// its runtime: into a transient scope with the limits and the device rules of the scope that they
// leave, which systemd then removes.
//
// Limitations after a move:
//   - Memory that is already charged stays charged to the old slice.
//   - The runtime keeps the old path. Its metrics and process lists of the container fail, and so
//     do pausing it, changing its resources, and killing it if it has no PID namespace of its own
//     (see StopScope of package systemd). All of that works again once the container is moved
//     back, under its old name.
//   - A container with a cgroup namespace, as every container has that is not privileged, finds its
//     /sys/fs/cgroup empty from the first move on, even after it is moved back: its namespace shows
//     the cgroup that was removed (seen with kernels 6.1 and 6.12). Programs that read memory.max
//     there only when they start are not affected. Programs that keep reading it are.
package livemove
