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
cat >script <<'SH'
"$1"/initdb -D data -N -A trust -U me >init.log 2>&1 || cat init.log
"$1"/pg_ctl -D data -o "-k $PWD -c listen_addresses= -c fsync=off" -l log -w start >ctl.log 2>&1 || cat ctl.log log
"$1"/pgbench -h "$PWD" -U me -i -s 1 -q postgres 2>&1 | grep -c done
"$1"/pgbench -h "$PWD" -U me -c 2 -j 2 -t 50 postgres 2>&1 | grep processed
"$1"/psql -h "$PWD" -U me -At -c 'select count(*) from pgbench_history' postgres
"$1"/pg_ctl -D data -m fast stop
SH
export LIMIT=250
record_tree postgres bash "$T/script" "$bin"
grep -qx 100 postgres.out || { cat postgres.out >&2; fail "the transactions are not there"; }
ok
