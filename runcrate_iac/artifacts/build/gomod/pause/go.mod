module runcrate/pause

go 1.21
