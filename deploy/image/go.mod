// A separate module: what builds the image is no dependency of the programs.
module nodepartition/deploy/image

go 1.26

require github.com/google/go-containerregistry v0.22.1
