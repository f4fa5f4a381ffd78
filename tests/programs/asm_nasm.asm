; No libc at all (nasm): fills a buffer with string instructions, prints it twice, exits with 11.
        default rel
        global  _start
        section .text
_start: cld
        lea     rdi, [buffer]
        mov     al, 'a'
.fill:  mov     rcx, 4
        rep     stosb
        inc     al
        cmp     al, 'i'
        jne     .fill
        mov     byte [rdi], 10
        call    print
        std                             ; reverse by lodsb backwards / stosb forwards
        lea     rsi, [buffer + 31]
        lea     rbx, [other]
        mov     ecx, 32
.turn:  lodsb
        mov     [rbx], al
        inc     rbx
        dec     ecx
        jnz     .turn
        cld
        lea     rsi, [other]
        lea     rdi, [buffer]
        mov     ecx, 4
        rep     movsq
        call    print
        mov     eax, 60
        mov     edi, 11
        syscall
print:  mov     eax, 1
        mov     edi, 1
        lea     rsi, [buffer]
        mov     edx, 33
        syscall
        ret
        section .bss
buffer: resb    64
other:  resb    64
        section .note.GNU-stack noalloc noexec nowrite progbits
