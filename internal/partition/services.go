package partition

// MonitorService is started if there is a partition and the monitor is installed.
const MonitorService = "partition-monitor.service"

// MonitorCgroup is the cgroup of that service below CgroupMount, unless an operator has set another
// Slice=.
const MonitorCgroup = "system.slice/" + MonitorService
