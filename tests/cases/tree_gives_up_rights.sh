#!/usr/bin/env bash
# A program that root starts and that becomes somebody else: all of its processes are recorded, though the recording lies
# where that user cannot go. Nobody else is let in, and the recording's owner can do everything with it.
source "$(dirname "$0")/lib.bash"
need setpriv
if [ "$(id -u)" != 0 ]; then
  several=(unshare --user --map-auto --map-root-user)
  "${several[@]}" setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null ||
    skip "needs root, or a user namespace with several users"
  rm -rf "$T"
  exec "${several[@]}" bash "$0"
fi
other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
third=(setpriv --reuid=65531 --regid=0 --clear-groups)
[ "$(stat -c %a "$T")" = 700 ] || fail "the test's folder can be entered"

# all_there NAME: every process that was begun has a log, and none says that another one has not.
all_there() {
  "$PYTHON" - "$T/$1" <<'PY' || fail "$1: not all processes were recorded"
import glob, json, os, struct, sys
folder = sys.argv[1]
logs = len(glob.glob(folder + "/process-*.log"))
begun = struct.unpack("<I", open(folder + "/tree", "rb").read(4))[0]
notes = [n for m in glob.glob(folder + "/*.json") for n in json.load(open(m))["notes"] if "recorded" in n]
print(folder, logs, "logs of", begun, notes, file=sys.stderr)
sys.exit(logs != begun or bool(notes))
PY
}

OUTPUT=same record_tree shell "${other[@]}" sh -c \
  'id -u; (echo sub; exit 3); echo $?; echo a | tr a b | cat; /bin/true; ls -l /proc/self/fd | wc -l; exec echo last'
all_there shell
OUTPUT=same record_tree below bash -c "${other[*]} "'sh -c "id -u; (echo sub); exit 5"; echo $?; (id -u); id -u | cat'
all_there below
# From one to the other, each with its own files.
OUTPUT=same record_tree two bash -c 'for u in 65534 65533 65532; do
  setpriv --reuid=$u --regid=$u --clear-groups sh -c "id -u; id -g | cat; (exit 4)"; echo $?; done'
all_there two

OUTPUT=same record_tree forked "$PYTHON" -c '
import os
pid = os.fork()
if pid == 0:
    os.setgid(65534)
    os.setuid(65534)
    if os.fork() == 0:
        print("grandchild", os.getuid(), flush=True)
        os._exit(2)
    os.wait()
    os.execv("/bin/echo", ["echo", "hi"])
print(os.waitpid(pid, 0)[1])'
all_there forked

# The program lies where everybody can get at it.
public=$(mktemp -d "${TMPDIR:-/tmp}/backstep-test.XXXXXX")
trap 'cleanup; rm -rf "$public"' EXIT
chmod 711 "$public"
cp "$P/tree_rights" "$public"
LIMIT=$PATIENCE OUTPUT=same record_tree program "$public/tree_rights" 65534
all_there program
# shellcheck disable=SC2154  # set by replay_tree
[ "$logs" -ge 17 ] || fail "only $logs logs"
mkdir empty
OUTPUT=same record_tree new-root "$public/tree_rights" chroot "$T/empty"
all_there new-root
[ "$logs" = 7 ] || fail "$logs logs in a new root"
[ -z "$(ls -A empty)" ] || fail "files in the new root"

# Who can do what with it.
chmod 711 "$T"
for name in shell program; do
  [ -z "$(find "$name" ! -type l -perm /007)" ] || fail "others have rights: $(find "$name" ! -type l -perm /007)"
  for file in . manifest.json tree store-keys process-1.log process-3.log files; do
    "${third[@]}" test ! -r "$name/$file" || fail "a third user can read $name/$file"
    "${third[@]}" test ! -w "$name/$file" || fail "a third user can write $name/$file"
  done
  "${other[@]}" test ! -r "$name/process-1.log" || fail "what root did can be read by the user that it became"
done
chmod 700 "$T"
expect 0 "$BACKSTEP" ls
expect 0 "$BACKSTEP" info shell
expect 0 "$BACKSTEP" pack "$T/shell"
mv recordings elsewhere-now
replay_tree shell 1
mv elsewhere-now recordings
expect 0 "$BACKSTEP" rm "$T/shell"
[ ! -e shell ] || fail "the recording is still there"

# Without ACLs the folder is given to the user.
mkdir plain
if unshare -m true 2>/dev/null && unshare -m mount -t ramfs none plain 2>/dev/null; then
  (cd "$public" && unshare -m sh -c "mount -t ramfs none '$T/plain' && chmod 700 '$T/plain' &&
    '$BACKSTEP' record -q -o '$T/plain/rec' -- ${other[*]} sh -c 'id -u; (echo sub) | cat' >'$T/no-acl.out' &&
    [ -z \"\$(find '$T/plain/rec' ! -type l -perm /077)\" ] && cp -a '$T/plain/rec' '$T/no-acl'") || fail "recording without ACLs"
  replay_tree no-acl 1
  all_there no-acl
else
  say "ramfs cannot be mounted here: not tried without ACLs"
fi
ok
