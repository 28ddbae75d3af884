package admission

// Texts has the messages that package policy shares with Convert and Judge, and the value of a
// target. None has an apostrophe.
type Texts struct {
	Asked                                        string
	Unknown, Silent, Guaranteed, PodLevel, Class string
	TwoTypes, Effect, Resource, Annotation       string
	Many, Bound, Changed, Resized                string
}

// AllTexts returns the messages.
func AllTexts() Texts {
	return Texts{
		Asked:   asked,
		Unknown: unknownWarning, Silent: silentWarning, Guaranteed: guaranteedWarning,
		PodLevel: podLevelWarning, Class: classWarning,
		TwoTypes: errTwoTypes.Error(), Effect: errEffect.Error(), Resource: errResource.Error(),
		Annotation: errAnnotation.Error(),
		Many:       errMany.Error(),
		Bound:      "a binding can not have the workload annotations of a pod",
		Changed:    "the workload annotations of a pod can not be changed: make the pod again",
		Resized: "a container of a pod with a workload annotation can not get a request or a limit of cpu: " +
			"make the pod again with another request",
	}
}
