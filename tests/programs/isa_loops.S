# loop, loope, loopne, jrcxz, jecxz in all directions, with 32- and 64-bit counters, flags live through them;
# jumps to themselves (target == address counts as a tick). Exit status 0 and "loops right", or the number of
# the failed check. No libc; the number of ticks is a property of the text and is checked by the oracle test.
        .intel_syntax noprefix
        .globl _start
        .text
_start:
        mov     ebx, 1                  # loop: 10 rounds
        mov     ecx, 10
        xor     eax, eax
1:      inc     eax
        loop    1b
        cmp     eax, 10
        jne     fail

        mov     ebx, 2                  # loop to itself
        mov     ecx, 1000
2:      loop    2b
        test    rcx, rcx
        jnz     fail

        mov     ebx, 3                  # loopne stops at ZF
        mov     ecx, 100
        xor     eax, eax
3:      inc     eax
        cmp     eax, 7
        loopne  3b
        jne     fail
        cmp     ecx, 93
        jne     fail

        mov     ebx, 4                  # loope stops at !ZF; loop leaves the flags alone
        mov     ecx, 50
        xor     edx, edx
4:      inc     edx
        mov     eax, 5
        stc
        loop    5f
5:      jnc     fail
        cmp     edx, 20
        setb    al
        cmp     al, 1
        loope   4b
        cmp     edx, 20
        jne     fail

        mov     ebx, 5                  # jrcxz forwards and backwards
        xor     ecx, ecx
        jrcxz   7f
        jmp     fail
6:      xor     ecx, ecx
        jmp     8f
7:      jrcxz   6b
        jmp     fail
8:      mov     ebx, 6                  # jecxz looks at 32 bits
        movabs  rcx, 0x100000000
        jrcxz   fail_hop
        jecxz   9f
fail_hop:
        jmp     fail
9:      mov     ebx, 7                  # loop with a 32-bit counter clears the upper half? (it writes ecx)
        movabs  rcx, 0x100000003
        xor     eax, eax
10:     inc     eax
        addr32 loop 10b
        cmp     eax, 3
        jne     fail
        test    rcx, rcx
        jnz     fail

        mov     ebx, 8                  # jcc to itself is possible only when it is not taken for ever: jno $
        xor     eax, eax
11:     jnz     11b
        jc      11b
        mov     ebx, 9                  # counter wraps from 0: loop with rcx = 0 is taken
        xor     ecx, ecx
        loop    12f
        jmp     fail
12:     inc     rcx
        jnz     fail
        # every condition code, backwards, taken and not taken
        mov     ebx, 10
        xor     esi, esi
        mov     edi, 16
13:     dec     edi
        js      14f
        cmp     edi, 8
        .irp    cc, o, no, b, nb, z, nz, be, a, s, ns, p, np, l, ge, le, g
        j\cc    15f
        inc     esi
15:     cmp     edi, 8
        .endr
        jmp     13b
14:     mov     eax, 1
        mov     edi, 1
        lea     rsi, [rip + message]
        mov     edx, 12
        syscall
        xor     edi, edi
        mov     eax, 231
        syscall
fail:   mov     edi, ebx
        mov     eax, 231
        syscall
        .section .rodata
message:.ascii  "loops right\n"
        .section .note.GNU-stack,"",@progbits
