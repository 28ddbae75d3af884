package fakenode

import (
	"time"

	"node-partition.io/node-partition/internal/host"
	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/internal/sizing/sizefile"
)

// Measure writes the record of a partition that ends now. usage returns the usage of its two
// members in bytes by the time since its beginning.
func (n *Node) Measure(
	partition partition.Name, length time.Duration, usage func(since time.Duration) (agent, backup uint64),
) {
	n.t.Helper()
	file, err := sizefile.Open(host.Root(n.Root), partition)
	if err != nil {
		n.t.Fatal(err)
	}
	begin := time.Now().UTC().Add(-length).Truncate(time.Second)
	for since := time.Minute; since <= length; since += time.Minute {
		agent, backup := usage(since)
		file.Add(begin.Add(since), time.Minute, sizefile.Minute{
			Used: agent + backup, Members: 2, RequestBytes: 100 << 20,
			Usage: map[string]uint64{"kube-system/agent": agent, "kube-system/backup": backup},
		})
	}
	if err := file.Write(host.Root(n.Root)); err != nil {
		n.t.Fatal(err)
	}
}

// Nightly is a usage of 200 MiB, and 300 more in an hour of each night.
func Nightly(since time.Duration) (agent, backup uint64) {
	const mebi = 1 << 20
	if of := since % (24 * time.Hour); of > 3*time.Hour && of < 4*time.Hour {
		return 140 * mebi, 360 * mebi
	}
	return 140 * mebi, 60 * mebi
}
