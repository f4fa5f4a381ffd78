#!/usr/bin/env bash
# A JVM: hello, and a program that keeps the compiler threads and the collector busy, with several collectors.
source "$(dirname "$0")/../cases/lib.bash"
need java javac
export LIMIT=250
javac -d "$T" "$SRC/tests/soak/Threads.java"
OUTPUT=same record_replay hello java -cp "$T" Threads hello
OUTPUT=same record_replay java java -Xmx200m -cp "$T" Threads
OUTPUT=same record_replay java-serial java -Xmx200m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$T" Threads
OUTPUT=same record_replay java-parallel java -Xmx100m -XX:+UseParallelGC -XX:ParallelGCThreads=4 -cp "$T" Threads
OUTPUT=same record_replay java-g1 java -Xmx100m -XX:+UseG1GC -cp "$T" Threads
ok
