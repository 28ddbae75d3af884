package partition

// CgroupMount is the mount point of the unified hierarchy on a node with systemd, by its name on
// that node.
const CgroupMount = "/sys/fs/cgroup"
