module rackspan.dev/distributions/pause

go 1.21
