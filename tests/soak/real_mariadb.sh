#!/usr/bin/env bash
# MariaDB: its installation script, a server with many threads, InnoDB, clients.
source "$(dirname "$0")/../cases/lib.bash"
have mariadbd && have mariadb-install-db && id mysql >/dev/null 2>&1 || skip "no MariaDB here (apt-get install mariadb-server)"
[ "$(id -u)" = 0 ] || skip "it becomes another user, which takes root"
cat >script <<'SH'
mariadb-install-db --user=mysql --datadir="$1/data" --auth-root-authentication-method=normal --skip-test-db >install.log 2>&1 || tail install.log
mariadbd --no-defaults --user=mysql --datadir="$1/data" --socket="$1/data/s" --skip-networking --pid-file="$1/data/pid" >server.log 2>&1 & server=$!
for ((i = 0; i < 300; i++)); do mariadb-admin -uroot -S "$1/data/s" ping >/dev/null 2>&1 && break; sleep 0.1; done
mariadb -uroot -S "$1/data/s" -N -e "create database d; create table d.t(a int primary key auto_increment, b varchar(100)) engine=innodb;
  insert into d.t(b) values ('x'),('y'),('z'); insert into d.t(b) select b from d.t; insert into d.t(b) select concat(b, a) from d.t; select count(*), max(b) from d.t"
mariadb-admin -uroot -S "$1/data/s" shutdown
wait $server
SH
chmod 755 "$T"
mkdir -m 777 data
export LIMIT=200
NATIVE=no TREE_OUTPUT=no record_tree mariadb bash "$T/script" "$T"
grep -q '^12[[:space:]]z' mariadb.out || { cat mariadb.out mariadb.err folder.mariadb/*.log >&2; fail "no rows"; }
ok
