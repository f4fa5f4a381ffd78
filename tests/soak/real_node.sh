#!/usr/bin/env bash
# node: compiler and collector threads, workers, the thread pool of libuv.
source "$(dirname "$0")/../cases/lib.bash"
need node
export LIMIT=250
OUTPUT=same record_replay hello node -e 'console.log("hello")'
OUTPUT=same record_replay node node "$SRC/tests/soak/node.js"
OUTPUT=same record_replay node-more-threads node --v8-pool-size=4 --max-old-space-size=64 "$SRC/tests/soak/node.js"
ok
