// A separate module: the programs do not need what reads the files of other tools.
module node-partition.io/node-partition/deploy/fleet

go 1.26.0

require (
	github.com/coreos/ignition/v2 v2.24.0
	github.com/vincent-petithory/dataurl v1.0.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/coreos/go-json v0.0.0-20230131223807-18775e0fb4fb // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/coreos/vcontext v0.0.0-20230201181013-d72178a18687 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
