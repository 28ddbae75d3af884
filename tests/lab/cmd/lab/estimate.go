package main

import (
	"fmt"
	"math"
	"time"
)

// references returns how many seconds each step of a first demo takes: on two cores of an AMD EPYC,
// with emulated nodes and empty caches of Go and of the lab, beside the steps that run at the same
// time. 0 means that it is not measured. A name is as in the lines of progress, with the version of
// a program: another version has to be measured again.
func references() map[string]float64 {
	return map[string]float64{
		buildingPrograms:                  205,
		"unpacking qemu":                  16,
		"installing Debian trixie":        77,
		"building pause 1":                1,
		"building podtool 1":              1,
		"building kubelet-1.37 v1.37.0":   241,
		"containerd-1.7: making the disk": 8,
		"containerd-1.7: importing the container images in a first boot": 22,
		"containerd-1.7: copying /var":                                   0.8,
		booting:                                                          15,
		startingPods:                                                     18,
		switchingOn:                                                      16,
		showing:                                                          36,
	}
}

// planned is a step of a first run.
type planned struct {
	name string
	// reference is the step's time on the machine of references. 0 means that it is not known.
	reference time.Duration
	// after lists steps that are over before it begins. They come before it in a plan, or were over
	// before the run.
	after []string
}

// observed is the state of a step that has begun.
type observed struct {
	// took is the time until its end, or until now.
	took time.Duration
	over bool
}

const (
	// maxPace bounds the pace of machines, which differ by a factor of three. A step that is quicker
	// than that found its work in a cache, and says nothing about the machine.
	maxPace = 3
	// paceWeight is the time at the pace of the references with which the steps that are over are
	// averaged, because a short step says little about the machine.
	paceWeight = 20 * time.Second
)

// remaining estimates how long it takes until all steps of a plan are over. It returns false if a
// step has no reference, or if a step takes much longer than its reference.
func remaining(plan []planned, begun map[string]observed) (time.Duration, bool) {
	scale, ok := pace(plan, begun)
	if !ok {
		return 0, false
	}
	var last time.Duration
	ends := map[string]time.Duration{}
	for _, p := range plan {
		whole := time.Duration(float64(p.reference) * scale)
		o, hasBegun := begun[p.name]
		var end time.Duration
		switch {
		case o.over:
		case hasBegun:
			end = max(0, whole-o.took)
		default:
			for _, before := range p.after {
				end = max(end, ends[before])
			}
			end += whole
		}
		ends[p.name] = end
		last = max(last, end)
	}
	return last, true
}

// pace returns how many times as long as their references the steps of a plan take in a run.
func pace(plan []planned, begun map[string]observed) (scale float64, ok bool) {
	took, reference := paceWeight, paceWeight
	longest := 0.0
	for _, p := range plan {
		if p.reference <= 0 {
			return 0, false
		}
		o, hasBegun := begun[p.name]
		switch {
		case !hasBegun:
		case !o.over:
			longest = max(longest, float64(o.took)/float64(p.reference))
		case o.took >= p.reference/maxPace:
			took += o.took
			reference += p.reference
		}
	}
	// A step that runs longer than it should shows as much as one that is over.
	scale = max(float64(took)/float64(reference), longest)
	return scale, len(plan) > 0 && scale <= maxPace
}

// about rounds a time up to minutes.
func about(d time.Duration) string {
	switch minutes := math.Ceil(d.Minutes()); {
	case d < 45*time.Second:
		return "less than a minute"
	case minutes <= 1:
		return "about a minute"
	default:
		return fmt.Sprintf("about %.0f minutes", minutes)
	}
}
