// What the pods of tests do.
module node-partition.io/node-partition/tests/lab/sources/podtool

go 1.26.0
