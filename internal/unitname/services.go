package unitname

// MonitorService is started if there is a partition and the monitor is installed.
const MonitorService = "partition-monitor.service"
