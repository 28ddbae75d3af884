// A module of its own: a Prometheus with its storage and rules is no dependency of the programs.
module nodepartition/tests/fleet

go 1.26

require (
	github.com/prometheus/common v0.67.5
	github.com/prometheus/prometheus v0.311.3
	nodepartition/deploy/generate v0.0.0
	sigs.k8s.io/yaml v1.6.0
)

replace nodepartition/deploy/generate => ../../deploy/generate

// As in the go.mod of Prometheus: newer versions lack a package that a test of a dependency needs.
replace github.com/go-openapi/testify/v2 => github.com/go-openapi/testify/v2 v2.0.2
