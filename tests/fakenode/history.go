package fakenode

import (
	"path/filepath"
	"time"

	"nodepartition/internal/samples"
)

const mebi = 1 << 20

// Record writes a history that ends now. usage returns the usage of two pods in MiB by the time
// since its beginning: one has a peak, the other leaks.
func (n *Node) Record(
	length time.Duration,
	members bool,
	change func(since time.Duration, s *samples.Sample),
) (begin time.Time) {
	n.t.Helper()
	ring, err := samples.Open(
		filepath.Join(n.Root, "/var/lib/node-partition/history"),
		func(err error) { n.t.Error(err) },
	)
	if err != nil {
		n.t.Fatal(err)
	}
	begin = time.Now().UTC().Add(-length).Truncate(time.Minute)
	for since := time.Minute; since <= length; since += time.Minute {
		backup, leak := uint64(60), uint64(40+4*since.Hours())
		if of := since % (24 * time.Hour); of > 3*time.Hour && of < 4*time.Hour {
			backup = 300
		}
		at := begin.Add(since)
		s := samples.Sample{Time: at, Seconds: 60, Boot: "0a1b2c3d",
			Partition: &samples.Usage{
				UsedPeakBytes: (backup + leak) * mebi, UsedLowBytes: (backup + leak) * mebi,
				CurrentPeakBytes: 2 * (backup + leak) * mebi, PeakTime: at,
				LimitBytes: 2048 * mebi, HardBytes: 103 * mebi, MilliCPU: 50,
			},
			Groups: []samples.Group{
				{Name: "system.slice", WorkingSetBytes: 400 * mebi, MilliCPU: 100},
				{Name: "system.slice/kubelet.service", Kube: true, WorkingSetBytes: 150 * mebi, MilliCPU: 60},
			},
		}
		if members {
			s.Members = []samples.Member{
				{
					UID:             "1",
					Namespace:       "kube-system",
					Name:            "backup",
					Containers:      "a",
					RequestBytes:    350 * mebi,
					UsedBytes:       backup * mebi,
					WorkingSetBytes: backup * mebi,
				},
				{
					UID:             "2",
					Namespace:       "kube-system",
					Name:            "collector",
					Containers:      "a",
					RequestBytes:    50 * mebi,
					UsedBytes:       leak * mebi,
					WorkingSetBytes: leak * mebi,
				},
			}
		}
		if change != nil {
			change(since, &s)
		}
		if err := ring.Add(s); err != nil {
			n.t.Fatal(err)
		}
	}
	if err := ring.Close(); err != nil {
		n.t.Fatal(err)
	}
	return begin
}
