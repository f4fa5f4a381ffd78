# bash completion for backstep

_backstep_recordings() {
  local dir=${BACKSTEP_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/backstep} path
  for path in "$dir"/*/manifest.json; do
    [ -f "$path" ] || continue
    path=${path%/manifest.json}
    printf '%s\n' "${path##*/}"
  done
}

_backstep() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} i
  local commands="record replay ls info ps dump syscalls count log calls profile coverage query assert why diff allocs races probe sql cluster session events checkpoints trace rm pack"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands help --help --version" -- "$cur")
    return
  fi

  local options='' takes=''
  case $command in
    record) options="-o --output -q --quiet --cpu --check=deep --no-follow --follow --chaos --until-failure --fail-if --checkpoints --limit --no-pack --host --no-cache -h --help" ;;
    replay) options="-a --autopilot -p --process --serve --probe --probe-at --probe-flags --debug-state --at --last-write --last-change --checkpoints --check=deep -q --quiet --json --no-cache -h --help" ;;
    ls) options="--json -h --help" ;;
    info) options="--json -p --process -h --help" ;;
    ps) options="-w --wide --json -h --help" ;;
    dump) options="-a --all -n --limit --from -k --kind --failed --grep -s --strings -p --process --clock --pc --json -h --help" ;;
    syscalls) options="-p --process --from --to --failed -n --limit --last -s --strings --summary --json -h --help" ;;
    count) options="-p --process --from --to --json --no-cache -h --help" ;;
    log) options="-p --process --from --to --json --no-cache -h --help -n --limit --last --stack" ;;
    why) options="--at -p --process --thread --frame --depth --width --limit --copies --addresses --json --dot --no-cache -h --help" ;;
    probe) options="--at --python --tag --parallel --compile --check --program --output -p --process --from --to --json --no-cache -h --help" ;;
    diff) options="-p --process --exact --json --no-cache -h --help" ;;
    calls) options="-p --process --from --to --json --no-cache -h --help -n --limit --tree --depth --system" ;;
    allocs) options="-p --process --to --json --no-cache -h --help -n --limit --leaks --errors --frees --uninitialised --reachable --from" ;;
    races) options="-p --process --from --to --json --no-cache -h --help" ;;
    profile) options="-p --process --from --to --json --no-cache -h --help --period --instructions --lines -n --limit --svg --folded --diff" ;;
    coverage) options="-p --process --from --to --json --no-cache -h --help --minus --system --functions --lcov" ;;
    query) options="-p --process --at --print --stack --json --no-cache -h --help" ;;
    assert) options="-p --process --from --to --json --no-cache -h --help" ;;
    sql) options="-p --process --json --csv --explain --export --table --schema --replace --no-cache -h --help" ;;
    cluster)
      # Commands of its own; behind these, runs, which may be recordings, and options.
      if [ "$COMP_CWORD" -eq 2 ]; then
        mapfile -t COMPREPLY < <(compgen -W "record gather check ls info break step goto cuts mark blocked suspended delayed path svg events sql gdb --help" -- "$cur")
        return
      fi
      options="--rsh --export --table --schema --replace --messages --causal --optimistic --count --last --name --back --remove --cut --depth --from --to --only -o --output --title --width --channel --value --most --recorded --quick -q --quiet --explain --json --csv --no-cache -h --help"
      ;;
    session) options="-p --process --listen --no-cache -h --help" ;;
    events) options="--json -h --help" ;;
    trace) options="--level --budget --remove --jobs --hosts --at-once --job-seconds --tries --job-program --job-options --job -p --process --from --to --json --no-cache -h --help" ;;
    checkpoints) options="--make --every --remove --verify --json --no-cache -p --process -h --help" ;;
    rm) options="-f --force --all --older --keep --passed -h --help" ;;
    pack) options="-q --quiet --sources --logs -h --help" ;;
    help)
      mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
      return
      ;;
  esac

  case $command,$prev in
    record,-o | record,--output)
      mapfile -t COMPREPLY < <(compgen -d -- "$cur")
      return
      ;;
    count,-p | count,--process | log,-p | log,--process | calls,-p | calls,--process | profile,-p | profile,--process | coverage,-p | coverage,--process | assert,-p | assert,--process | allocs,-p | allocs,--process)
      mapfile -t COMPREPLY < <(compgen -W "all" -- "$cur")
      return
      ;;
    record,--cpu)
      mapfile -t COMPREPLY < <(compgen -W "x86-64 x86-64-v2 x86-64-v3" -- "$cur")
      return
      ;;
    trace,--jobs)
      mapfile -t COMPREPLY < <(compgen -W "local ssh slurm" -- "$cur")
      return
      ;;
    cluster,-o | cluster,--output | profile,--svg | coverage,--lcov | session,--listen | sql,--export | trace,--job | trace,--job-program)
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return
      ;;
    dump,-k | dump,--kind)
      mapfile -t COMPREPLY < <(compgen -W "syscall instr signal map memory start checksum note end turn" -- "$cur")
      return
      ;;
    dump,-n | dump,--limit | dump,--from | dump,-s | dump,--strings | syscalls,--from | syscalls,--to | syscalls,-n | syscalls,--limit | syscalls,--last | syscalls,-s | syscalls,--strings | count,--from | count,--to | log,--from | log,--to | log,-n | log,--limit | log,--last | calls,--from | calls,--to | calls,-n | calls,--limit | calls,--depth | profile,--from | profile,--to | profile,--period | profile,-n | profile,--limit | coverage,--from | coverage,--to | trace,--from | trace,--to | trace,--level | trace,--budget | trace,--hosts | trace,--at-once | trace,--job-seconds | trace,--tries | trace,--job-options | sql,--table | sql,--schema | replay,--serve | replay,--at | replay,--probe-at | replay,--probe-flags | replay,--last-write | replay,--last-change | replay,--checkpoints | record,--checkpoints | checkpoints,--every | record,--follow | query,--at | query,--print | assert,--from | assert,--to | probe,--at | probe,--from | probe,--to | why,--at | why,--thread | why,--frame | why,--depth | why,--width | why,--limit | races,--from | races,--to | allocs,--from | allocs,--to | allocs,-n | allocs,--limit | *,-p | *,--process)
      return
      ;;
  esac

  if [ "$command" = record ]; then
    # Behind the program everything is the program's own command line.
    i=2
    while [ "$i" -lt "$COMP_CWORD" ]; do
      case ${COMP_WORDS[i]} in
        -o | --output | --cpu | --check | --follow | --checkpoints) takes=1 ;;
        -*) takes= ;;
        *)
          if [ -z "$takes" ]; then
            if declare -F _command_offset >/dev/null; then
              _command_offset "$i"
            else
              mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            fi
            return
          fi
          takes=
          ;;
      esac
      i=$((i + 1))
    done
    case $cur in
      -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur") ;;
      *) mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur") ;;
    esac
    return
  fi

  case $cur in
    -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur") ;;
    %*) mapfile -t COMPREPLY < <(compgen -W "%file %desc %net %network %process %memory %signal" -- "$cur") ;;
    */* | .*) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *)
      [ "$command" = ls ] || [ "$command" = events ] ||
        mapfile -t COMPREPLY < <(compgen -W "latest $(_backstep_recordings)" -- "$cur"; compgen -d -- "$cur")
      ;;
  esac
}

complete -o filenames -F _backstep backstep
