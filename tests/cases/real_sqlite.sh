#!/usr/bin/env bash
# sqlite3: in memory and with a file (locks, journal, fsync).
source "$(dirname "$0")/lib.bash"
need sqlite3
cat >work.sql <<'S'
create table t(id integer primary key, name text, value real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
  insert into t select i, printf('name-%05d', i * 7919 % 20011), i / 7.0 from n;
create index by_name on t(name);
begin; update t set value = value * 2 where name like '%77%'; commit;
select count(*), round(sum(value), 3), max(name) from t;
select name from t order by value desc limit 3;
S
export OUTPUT=same
STDIN=$T/work.sql record_replay memory sqlite3 :memory:
STDIN=$T/work.sql record_replay file sqlite3 file.db
STDIN=$T/work.sql OUTPUT='' record_replay random sqlite3 :memory: 'select hex(randomblob(8)), random(), julianday();'
ok
