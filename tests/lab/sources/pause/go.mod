// The sandbox container's only process.
module node-partition.io/node-partition/tests/lab/sources/pause

go 1.26.0
