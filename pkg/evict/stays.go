package evict

import (
	"errors"
	"io/fs"
	"slices"
	"time"
)

// forgetUnreclaimable drops pods that are gone, and pods whose memory has come back after all:
// stopping such a pod later frees memory again. This must be checked when it happens, which may be
// long before memory is low again.
func (x *executor) forgetUnreclaimable(now time.Time) {
	if len(x.state.Unreclaimable) == 0 || now.Before(x.unreclaimableUntil) {
		return
	}
	begin := time.Now()
	defer func() { x.unreclaimableUntil = now.Add(restFor(time.Since(begin))) }()
	pods, changed := x.Pods(), false
	// Before the kubelet and the first reconcile have identified the pods, a missing pod may still
	// exist.
	complete := x.Known() && len(pods) > 0 && !slices.ContainsFunc(pods, func(p Pod) bool { return p.Unknown })
	for uid, bytes := range x.state.Unreclaimable {
		i := slices.IndexFunc(pods, func(p Pod) bool { return p.UID == uid })
		left := uint64(0)
		switch {
		case i >= 0:
			reading, err := x.Cgroups.Memory(pods[i].Cgroup)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			left = reading.Used()
		case !complete:
			continue
		}
		switch {
		case left <= bytes/2:
			delete(x.state.Unreclaimable, uid)
		case left < bytes:
			x.state.Unreclaimable[uid] = left
		default:
			continue
		}
		changed = true
	}
	if changed {
		x.save()
	}
}
