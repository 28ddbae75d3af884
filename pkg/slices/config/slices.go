package config

// system is the name of the partition of KEP-5894. Nothing but this package goes by there being one partition: the others
// take the names of its slices from here.
const system = "system"

// Slices are the names of a partition's slices. They follow from the kubelet's: its cgroup name {kubepods, system,
// burstable} is kubepods-system-burstable.slice under the systemd driver (CgroupName.ToSystemd,
// pkg/kubelet/cm/cgroup_manager_linux.go), and systemd nests slices by the dashes in their names
// (systemd.slice(5)).
type Slices struct {
	// Partition is the partition's own; its guaranteed pods are directly below it.
	Partition string
	// Burstable holds its burstable pods, and BestEffort its best-effort ones.
	Burstable, BestEffort string
	// Below names all slices whose names begin as the partition's, for drop-ins (systemd.unit(5)).
	Below string
}

// slicesOf returns the slices of the partition of that name.
func slicesOf(name string) Slices {
	stem := "kubepods-" + name
	return Slices{Partition: stem + ".slice", Burstable: stem + "-burstable.slice", BestEffort: stem + "-besteffort.slice", Below: stem + "-.slice"}
}

// Cgroup returns the path of the partition's cgroup, below the root.
func (s Slices) Cgroup() string { return "/sys/fs/cgroup/kubepods.slice/" + s.Partition }
