module controlplane/tools

go 1.26.0
