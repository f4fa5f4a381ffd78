#!/usr/bin/env bash
# redis-server and redis-benchmark: threads, an event loop, a snapshot by a forked child.
source "$(dirname "$0")/../cases/lib.bash"
have redis-server && have redis-benchmark || skip "no redis here (apt-get install redis-server redis-tools)"
cat >script <<'SH'
redis-server --port 0 --unixsocket "$PWD/s" --save '' --dir "$PWD" >log 2>&1 &
for ((i = 0; i < 100; i++)); do redis-cli -s s ping 2>/dev/null | seen PONG && break; sleep 0.1; done
redis-benchmark -s s -n 3000 -c 5 -q -t set,get,lpush,lrange_100
redis-benchmark -s s -n 3000 -c 1 -P 16 -q -t set,get
redis-benchmark -s s --threads 2 -n 2000 -c 4 -q -t set
redis-cli -s s set key value
redis-cli -s s bgsave
for ((i = 0; i < 50; i++)); do redis-cli -s s info persistence | seen 'rdb_bgsave_in_progress:0' && break; sleep 0.1; done
redis-cli -s s get key
redis-cli -s s eval 'return redis.call("get", KEYS[1]) .. "!"' 1 key
redis-cli -s s shutdown nosave
wait $!
SH
record_tree redis bash "$T/script"
grep -q 'value!' redis.out || fail "redis does not answer"
ok
