! Fortran: array syntax, formatted output, internal files, intrinsic functions.
program numbers
  implicit none
  integer, parameter :: n = 60
  real(8) :: a(n, n), b(n, n), c(n, n), trace
  complex(8) :: z
  character(len=40) :: text
  integer :: i, j
  do j = 1, n
    do i = 1, n
      a(i, j) = sin(real(i, 8)) * j
      b(i, j) = cos(real(j, 8)) + i
    end do
  end do
  c = matmul(a, transpose(b))
  trace = 0
  do i = 1, n
    trace = trace + c(i, i)
  end do
  write (*, '(a,f20.8)') 'trace ', trace
  write (*, '(a,f16.6,a,i4)') 'max ', maxval(c), ' at row ', maxloc(c(:, 1))
  z = exp((0.0d0, 3.141592653589793d0))
  write (text, '(2f10.6)') real(z), aimag(z)
  write (*, '(a)') trim(text)
  print *, count(c > 0), sum(int(mod(abs(c), 7d0)))
end program numbers
