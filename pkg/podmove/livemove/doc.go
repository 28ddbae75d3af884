// Package livemove takes the processes of a running container over into another slice, without a word to its runtime: into
// a transient scope with the limits and the device rules of the scope that they leave, which systemd then removes.
//
// What does not follow: memory stays charged to where it was charged; the runtime keeps the old path, so that its figures and
// process lists end, as do killing a container without a PID namespace of its own (see StopScope), pausing it and
// changing its resources. Moved back, under its old name, it has all that again. A container with a cgroup namespace, which
// is every container that is not privileged, finds its /sys/fs/cgroup empty from the first move on, and also when it is
// moved back: it is that of the cgroup that was removed (seen with kernels 6.1 and 6.12). What reads memory.max there
// when it starts is not hurt; what goes on reading it is.
package livemove
