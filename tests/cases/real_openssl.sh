#!/usr/bin/env bash
# openssl: digests, ciphers and signatures in hand-written vector assembler, chosen by CPUID.
source "$(dirname "$0")/lib.bash"
need openssl
head -c 3000000 /dev/urandom >data
export OUTPUT=same
for digest in md5 sha1 sha256 sha512 sha3-256 blake2b512; do record_replay $digest openssl dgst -$digest "$T/data"; done
record_replay aes openssl enc -aes-256-ctr -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff \
  -iv 000102030405060708090a0b0c0d0e0f -in "$T/data"
record_replay chacha openssl enc -chacha20 -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff \
  -iv 000102030405060708090a0b0c0d0e0f -in "$T/data"
OUTPUT='' record_replay key openssl genpkey -algorithm ED25519
OUTPUT='' record_replay rand openssl rand -hex 32
# An alarm ends its loops: what it prints is how far it came.
NATIVE=no OUTPUT='' REPLAYS=2 record_replay speed openssl speed -seconds 1 -bytes 1024 -evp aes-128-cbc
if openssl speed -help 2>&1 | grep -c -- -multi >/dev/null; then
  NATIVE=no OUTPUT='' record_tree several openssl speed -multi 2 -seconds 1 -bytes 256 sha256
fi
ok
