package main

import (
	"math"
	"math/rand/v2"
)

// Two weeks of 60 containers, by the minute.
const (
	weekContainers = 60
	weekMinutes    = 14 * 24 * 60
	dayMinutes     = 24 * 60
)

// makeWeeks returns made-up containers with what a day's trace does not have: weekly and daily
// cycles, upgrades, peaks at the start, leaks and nightly jobs. Levels, noise, autocorrelation and
// the steps of the first day are about those of production containers.
func makeWeeks(seed uint64) []series {
	random := rand.New(rand.NewPCG(seed, weekContainers))
	trace := make([]series, weekContainers)
	for i := range trace {
		trace[i] = makeContainer(random)
	}
	return trace
}

// container is what a made-up container does. Parts are of its level.
type container struct {
	// level is the part of its limit that it uses. A sixth of the containers uses less than a tenth.
	level float64
	// noise is the standard deviation from minute to minute, which correlates for a quarter of an
	// hour.
	noise float64
	// step is added once, at a minute of the first day: one in eight loads more into its memory.
	step   float64
	stepAt int
	// cycle is the part that follows the traffic by day and by week: common to all who have it.
	cycle float64
	// nightly is added for 40 minutes at 02:00, by one in ten.
	nightly float64
	// leak is added each day until the container has all of its limit and starts again: one in 20.
	leak float64
}

func makeContainer(random *rand.Rand) series {
	between := func(low, high float64) float64 { return low + (high-low)*random.Float64() }
	one := func(of int) bool { return random.IntN(of) == 0 }
	c := container{level: between(0.2, 0.85), noise: between(0.001, 0.02)}
	if one(6) {
		c.level = between(0.03, 0.1)
	}
	if one(8) {
		c.step, c.stepAt = between(0.2, 1), random.IntN(dayMinutes)
	}
	if one(3) {
		c.cycle = between(0.02, 0.1)
	}
	if one(10) {
		c.nightly = between(0.1, 0.5)
	}
	if one(20) {
		c.leak = between(0.03, 0.2)
	}
	const correlation, startPeak, startMinutes, upgradeDays = 0.935, 0.15, 5, 6
	upgrade := random.IntN(upgradeDays * dayMinutes)
	out := make(series, weekMinutes)
	noise, version, age := 0.0, 1.0, dayMinutes // all have started before
	for minute := range out {
		if minute == upgrade {
			version, age = version*between(0.96, 1.06), 0
			upgrade += upgradeDays*dayMinutes/2 + random.IntN(upgradeDays*dayMinutes)
		}
		noise = correlation*noise + math.Sqrt(1-correlation*correlation)*random.NormFloat64()
		day, clock := minute/dayMinutes, minute%dayMinutes
		part := 1 + c.noise*noise
		if c.stepAt > 0 && minute >= c.stepAt {
			part += c.step
		}
		traffic := (1 - math.Cos(2*math.Pi*float64(clock)/dayMinutes)) / 2
		if day%7 >= 5 {
			traffic /= 2
		}
		part += c.cycle * traffic
		if clock >= 120 && clock < 160 {
			part += c.nightly
		}
		if age < startMinutes {
			part += startPeak
		}
		part += c.leak * float64(age) / dayMinutes
		use := c.level * version * part
		if use >= 1 && c.leak > 0 {
			age = 0
		}
		out[minute] = min(1, use)
		age++
	}
	return out
}
