# Every kind of transfer that makes a tick, and every kind that does not, with no libc. The comment at each
# says how many ticks it adds; between the first two markers (system call 9999) there are 48, then 2 + 1.
        .intel_syntax noprefix
        .globl _start
        .macro  marker
        mov     eax, 9999
        syscall
        .endm
        .text
back_target:
        jmp     forward1                # 0 forward
_start: marker
        jmp     back_target             # 1 backward
forward1:
        call    leaf                    # 1 call + 1 ret
        lea     rax, [rip + leaf]
        call    rax                     # 1 + 1
        call    [rip + leaf_pointer]    # 1 + 1
        lea     rax, [rip + 1f]
        jmp     rax                     # 1 indirect, although forward
        nop
1:      lea     rax, [rip + 2f]
        push    rax
        ret                             # 1
2:      mov     ecx, 5
3:      dec     ecx
        jnz     3b                      # 4 taken
        jz      4f                      # 0 forward taken
4:      mov     ecx, 8
5:      loop    5b                      # 7 taken, to itself
        mov     ecx, 3
6:      nop
        loop    6b                      # 2
        xor     ecx, ecx
        jrcxz   8f                      # 0 forward
7:      jmp     9f                      # 0
8:      jrcxz   7b                      # 1 backward
9:      mov     ecx, 100                # rep is no branch
        lea     rdi, [rip + scratch]
        xor     eax, eax
        rep     stosb                   # 0
        mov     ecx, 3
10:     cmp     ecx, 3
        jne     11f                     # 0 forward
        inc     eax
11:     dec     ecx
        jg      10b                     # 2
        call    12f                     # 1 call to the next instruction
12:     pop     rax
        call    recurse_entry           # 1 + 10 inner calls + 11 rets
        marker
        # a conditional branch whose target is its own fall-through: forward, never a tick
        cmp     eax, eax
        je      13f
13:     jne     13b                     # 0 not taken
        lea     rbx, [rip + table]
        jmp     [rbx]                   # 1 indirect through memory
case:   push    rbp
        mov     eax, 39
        syscall                         # a system call is no tick
        pop     rbp
        call    leaf16                  # 1 + 1 (ret imm16)
        marker
        mov     eax, 231
        xor     edi, edi
        syscall
leaf:   ret
leaf16: sub     rsp, 8
        push    [rsp + 8]
        ret     8
recurse_entry:
        mov     ecx, 10
recurse:
        dec     ecx
        js      14f
        call    recurse
14:     ret
        .data
leaf_pointer:
        .quad   leaf
table:  .quad   case
scratch:.skip   128
        .section .note.GNU-stack,"",@progbits
