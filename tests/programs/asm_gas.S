# No libc at all (gas): writes a line, computes with a call tree and a jump table, exits with 7.
        .intel_syntax noprefix
        .globl _start
        .text
_start:
        xor     ebp, ebp
        mov     r12, [rsp]              # argc
        xor     ebx, ebx
        mov     r13d, 1000
1:      mov     edi, r13d
        and     edi, 3
        lea     rax, [rip + table]
        movsxd  rcx, dword ptr [rax + rdi * 4]
        add     rcx, rax
        jmp     rcx
case0:  add     ebx, 1
        jmp     2f
case1:  lea     ebx, [rbx + rbx * 2]
        jmp     2f
case2:  xor     ebx, 0x55aa
        jmp     2f
case3:  call    rotate
2:      dec     r13d
        jnz     1b
        # print ebx as 8 hex digits
        lea     rdi, [rip + digits + 7]
        mov     ecx, 8
3:      mov     eax, ebx
        and     eax, 15
        lea     rsi, [rip + hex]
        mov     al, [rsi + rax]
        mov     [rdi], al
        dec     rdi
        shr     ebx, 4
        loop    3b
        mov     eax, 1
        mov     edi, 1
        lea     rsi, [rip + message]
        mov     edx, offset message_end - message
        syscall
        mov     eax, 231
        mov     edi, 7
        syscall
        hlt
rotate: rol     ebx, 7
        push    rbx
        pop     rbx
        ret
        .section .rodata
table:  .long   case0 - table, case1 - table, case2 - table, case3 - table
hex:    .ascii  "0123456789abcdef"
        .data
message:.ascii  "gas "
digits: .ascii  "00000000\n"
message_end:
        .section .note.GNU-stack,"",@progbits
