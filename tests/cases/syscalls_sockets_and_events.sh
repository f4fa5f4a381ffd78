#!/usr/bin/env bash
# Pipes, unix sockets, TCP and UDP over loopback, poll, select, epoll, eventfd, timerfd, signalfd, inotify.
source "$(dirname "$0")/lib.bash"
for name in sys_pipes sys_tcp sys_events; do program $name; done
ok
