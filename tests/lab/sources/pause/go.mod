// The sandbox container's only process.
module nodepartition/tests/lab/sources/pause

go 1.26.0
