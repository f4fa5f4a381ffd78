! Fortran between two markers: array work and formatted internal writes. The main program is ticks_fortran_main.c.
subroutine fortran_work() bind(C)
  implicit none
  integer, parameter :: n = 24
  real(8), save :: a(n, n), b(n, n), c(n, n)
  character(len=64), save :: text
  integer, save :: i, j, lines
  lines = 0
  do j = 1, n
    do i = 1, n
      a(i, j) = mod(i * 7 + j * 3, 11)
      b(i, j) = mod(i * 5 + j * 13, 17) - 8
    end do
  end do
  c = matmul(a, transpose(b))
  do i = 1, n
    write (text, '(i4,f12.3,1x,l1)') i, c(i, i), c(i, 1) > 0
    if (index(text, 'T') > 0) lines = lines + 1
  end do
  if (sum(c) == 0 .or. lines == 0) stop 1
end subroutine
