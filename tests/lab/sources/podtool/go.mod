// What the pods of tests do.
module nodepartition/tests/lab/sources/podtool

go 1.26.0
