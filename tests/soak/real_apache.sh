#!/usr/bin/env bash
# Apache with its scoreboard in shared memory, processes and threads, and php-fpm with opcache behind it.
source "$(dirname "$0")/../cases/lib.bash"
modules=/usr/lib/apache2/modules
fpm=$(ls /usr/sbin/php-fpm* 2>/dev/null | tail -n 1)
[ -d $modules ] && [ -n "$fpm" ] && have ab && have curl && have setsid ||
  skip "no Apache here (apt-get install apache2 apache2-utils php-fpm curl)"
[ "$(id -u)" = 0 ] || skip "it becomes another user, which takes root"
port=$((20000 + $$ % 10000))
mkdir www
mkdir -m 777 state
chmod 755 "$T" www
echo '<?php echo "hello ", array_sum(range(1, 1000)), "\n";' >www/page.php
echo static >www/page.txt
configure() { # MPM
  cat >httpd.conf <<CONF
ServerRoot $T
$(for m in mpm_$1 authz_core mime proxy proxy_fcgi status slotmem_shm; do echo "LoadModule ${m}_module $modules/mod_$m.so"; done)
Listen 127.0.0.1:$port
ServerName localhost
PidFile $T/state/httpd.pid
DefaultRuntimeDir $T/state
ErrorLog $T/state/error.log
DocumentRoot $T/www
TypesConfig /etc/mime.types
User www-data
Group www-data
<Directory $T/www>
Require all granted
</Directory>
<FilesMatch "\.php$">
SetHandler "proxy:unix:$T/state/php.sock|fcgi://localhost"
</FilesMatch>
<Location /status>
SetHandler server-status
</Location>
CONF
}
cat >fpm.conf <<CONF
[global]
error_log=$T/state/fpm.log
daemonize=no
[www]
user=www-data
group=www-data
listen=$T/state/php.sock
listen.mode=0666
pm=static
pm.max_children=2
CONF
cat >script <<'SH'
"$2" -y "$1/fpm.conf" -d opcache.enable=1 & fpm=$!
setsid apache2 -f "$1/httpd.conf" -DFOREGROUND & apache=$!
for ((i = 0; i < 200; i++)); do curl -s "http://127.0.0.1:$3/page.php" | grep hello >/dev/null && break; sleep 0.1; done
ab -q -n 300 -c 4 "http://127.0.0.1:$3/page.txt" 2>&1 | grep 'Complete\|Failed'
ab -q -n 100 -c 2 "http://127.0.0.1:$3/page.php" 2>&1 | grep 'Complete\|Failed'
curl -s "http://127.0.0.1:$3/page.php"
kill $apache $fpm
wait
SH
export LIMIT=100
for mpm in event prefork worker; do
  configure $mpm
  # php-fpm kills its workers.
  NATIVE=no TREE_OPTIONS=--incomplete record_tree $mpm bash "$T/script" "$T" "$fpm" "$port"
  [ "$(grep -c '^Failed requests: *0$' $mpm.out)" = 2 ] && grep -qx 'hello 500500' $mpm.out || { cat $mpm.out $mpm.err state/*.log >&2; fail "$mpm: not served"; }
  rm -rf $mpm
done
ok
