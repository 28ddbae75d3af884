// A separate module: what reads the files of other tools is no dependency of the programs.
module nodepartition/deploy/fleet

go 1.26

require (
	github.com/coreos/ignition/v2 v2.24.0
	github.com/vincent-petithory/dataurl v1.0.0
	k8s.io/api v0.37.0
	k8s.io/apiextensions-apiserver v0.37.0
	k8s.io/apimachinery v0.37.0
	sigs.k8s.io/cluster-api/api v1.14.2
	sigs.k8s.io/yaml v1.6.0
)
