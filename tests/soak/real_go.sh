#!/usr/bin/env bash
# Go: its own scheduler on many threads, preemption by signals, a concurrent collector.
source "$(dirname "$0")/../cases/lib.bash"
need go
export LIMIT=120 GO111MODULE=off
go build -o "$T/program" "$SRC/tests/soak/go.go"
OUTPUT=same record_replay go "$T/program"
GOMAXPROCS=2 GOGC=5 OUTPUT=same record_replay go-collects "$T/program"
RECORD_OPTIONS="${RECORD_OPTIONS:-} --chaos" OUTPUT=same record_replay go-chaos "$T/program"
cat >deadlock.go <<'G'
package main

func main() { <-make(chan int) }
G
go build -o deadlock deadlock.go
record_replay go-deadlock "$T/deadlock"
ok
