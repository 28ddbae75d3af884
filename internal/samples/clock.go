package samples

import (
	"slices"
	"time"
)

// adrift is the difference from which on a time counts as one of a clock that was set since.
// Smaller ones come from whole seconds, and from a clock that is slewed.
const adrift = time.Minute

// retime gives the samples of a boot the times that the clock of its last sample would have given
// them: Up runs on when the clock is set. So a clock that was wrong after the boot, or for an hour,
// neither loses samples nor lets them overlap. Samples without Up keep their times.
func (h *History) retime() {
	last := map[string]*Sample{} // by boot
	for _, list := range [][]Sample{h.Minutes, h.Tens} {
		for i := range list {
			if s := &list[i]; s.Up > 0 && s.Boot != "" && (last[s.Boot] == nil || s.Up > last[s.Boot].Up) {
				last[s.Boot] = &Sample{Time: s.Time, Up: s.Up}
			}
		}
	}
	for _, list := range [][]Sample{h.Minutes, h.Tens} {
		for i := range list {
			s := &list[i]
			end := last[s.Boot]
			if s.Up == 0 || end == nil {
				continue
			}
			shift := end.Time.Add(-time.Duration(end.Up-s.Up) * time.Second).Sub(s.Time)
			if shift.Abs() < adrift {
				continue
			}
			s.Time = s.Time.Add(shift)
			if s.Partition != nil {
				s.Partition.PeakTime = s.Partition.PeakTime.Add(shift)
			}
		}
	}
}

// uptimes holds what is known of each boot in a list of samples, in order: the values of Up.
type uptimes map[string][]uint64

func newUptimes(list []Sample) uptimes {
	ups := uptimes{}
	for i := range list {
		if list[i].Up > 0 {
			ups[list[i].Boot] = append(ups[list[i].Boot], list[i].Up)
		}
	}
	for boot := range ups {
		slices.Sort(ups[boot])
	}
	return ups
}

// until returns the last Up of a boot, 0 if none is known.
func (u uptimes) until(boot string) uint64 {
	if list := u[boot]; len(list) > 0 {
		return list[len(list)-1]
	}
	return 0
}

// within reports whether there is a sample in the stretch that ends with s.
func (u uptimes) within(s Sample, stretch time.Duration) bool {
	begin := s.Up - min(uint64(stretch/time.Second), s.Up)
	i, _ := slices.BinarySearch(u[s.Boot], begin+1)
	return i < len(u[s.Boot]) && u[s.Boot][i] <= s.Up
}
