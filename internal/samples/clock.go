package samples

import "time"

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
			for j := range s.Others {
				//guard: times of all partitions follow a clock that was set
				s.Others[j].PeakTime = s.Others[j].PeakTime.Add(shift)
			}
		}
	}
}

// lastUptimes returns the largest Up of each boot.
func lastUptimes(list []Sample) map[string]uint64 {
	last := map[string]uint64{}
	for i := range list {
		last[list[i].Boot] = max(last[list[i].Boot], list[i].Up)
	}
	return last
}
