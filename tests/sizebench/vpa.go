package main

import (
	"slices"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
)

// recommender has the defaults of the Vertical Pod Autoscaler's flags for memory.
var recommender = logic.CreatePodResourceRecommender(logic.RecommendationConfig{
	SafetyMarginFraction:       0.15,
	TargetMemoryPercentile:     0.9,
	LowerBoundMemoryPercentile: 0.5,
	UpperBoundMemoryPercentile: 0.95,
	ConfidenceIntervalCPU:      24 * time.Hour,
	ConfidenceIntervalMemory:   24 * time.Hour,
})

// vpa returns the target of the recommender for a container that uses so much. The recommender
// keeps the peak of each day alone, so it is given those: a minute after the other takes hours.
func vpa(use series) float64 {
	state := model.NewAggregateContainerState()
	memory := model.ResourceMemory
	state.ControlledResources = &[]model.ResourceName{memory}
	container := model.NewContainerState(nil, state)
	start := time.Unix(1_700_000_000, 0)
	days := 0
	for day := range slices.Chunk(use, 24*60) {
		container.AddSample(&model.ContainerUsageSample{
			MeasureStart: start.Add(time.Duration(days) * 24 * time.Hour), Resource: memory,
			Usage: model.ResourceAmount(slices.Max(day) * unit),
		})
		days++
	}
	found := recommender.GetRecommendedPodResources(model.ContainerNameToAggregateStateMap{"c": state})
	return float64(found["c"].Target[memory]) / unit
}

// vpaEach returns the sum of the targets for each member.
func vpaEach(p partition, _ series) float64 {
	sum := 0.0
	for _, m := range p.members {
		sum += vpa(m)
	}
	return sum
}
