#!/usr/bin/env bash
# PostgreSQL: initdb, a server with its processes around shared memory, pgbench.
source "$(dirname "$0")/../cases/lib.bash"
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
[ -x "$bin/initdb" ] || skip "no PostgreSQL here (apt-get install postgresql)"
# It refuses to run as root: then all of this case runs as its own user.
if [ "$(id -u)" = 0 ]; then
  have setpriv && id postgres >/dev/null 2>&1 || skip "PostgreSQL does not run as root"
  chmod 755 "$T"
  mkdir -m 777 user
  cp -r "$SRC/tests" "$BACKSTEP" user
  exec setpriv --reuid=postgres --regid=postgres --clear-groups env TMPDIR="$T/user" HOME="$T/user" \
    BACKSTEP="$T/user/${BACKSTEP##*/}" BUILD="$T/user" SRC="$T/user" bash "$T/user/tests/soak/real_postgres.sh"
fi
# $1: the programs; $2: options of the server.
cat >script <<'SH'
"$1"/initdb -D data -N -A trust -U me >init.log 2>&1 || cat init.log
"$1"/pg_ctl -D data -o "-k $PWD -c listen_addresses= -c fsync=off $2" -l log -w start >ctl.log 2>&1 || cat ctl.log log
"$1"/pgbench -h "$PWD" -U me -i -s 1 -q postgres 2>&1 | grep -c done
"$1"/pgbench -h "$PWD" -U me -c 2 -j 2 -t 50 postgres 2>&1 | grep processed
"$1"/psql -h "$PWD" -U me -At -c 'select count(*) from pgbench_history' postgres
# Workers that share memory which is made for the query.
"$1"/psql -h "$PWD" -U me -At postgres <<'SQL'
set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0; set parallel_tuple_cost = 0;
set max_parallel_workers_per_gather = 2;
select count(*), sum(b.abalance) - sum(a.abalance) from pgbench_accounts a join pgbench_accounts b using (aid);
SQL
# A worker that is killed: the server ends all others and makes its shared memory anew.
"$1"/psql -h "$PWD" -U me -At -c 'select pg_backend_pid(), pg_sleep(60)' postgres >/dev/null 2>&1 &
for _ in $(seq 600); do
  victim=$("$1"/psql -h "$PWD" -U me -At -c "select pid from pg_stat_activity where query like '%sleep(60)%' and pid <> pg_backend_pid()" postgres)
  [ -z "$victim" ] || break
  sleep 0.1
done
kill -9 "$victim"
wait
for _ in $(seq 600); do
  "$1"/psql -h "$PWD" -U me -At -c "select 'again', count(*) from pgbench_history" postgres 2>/dev/null && break
  sleep 0.1
done
"$1"/pg_ctl -D data -m fast stop
SH
export LIMIT=250
for options in "" "-c shared_memory_type=sysv -c dynamic_shared_memory_type=sysv" "-c dynamic_shared_memory_type=mmap"; do
  say "server options: ${options:-none}"
  TREE_OPTIONS=--incomplete NATIVE=no record_tree postgres bash "$T/script" "$bin" "$options"
  for line in 100 '100000|0' 'again|100' 'server stopped'; do
    grep -qxF "$line" postgres.out || { cat postgres.out postgres.err >&2; fail "no line '$line'"; }
  done
  rm -rf postgres
done
ok
