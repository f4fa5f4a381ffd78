// Starts ticks_fortran.f90 between two markers.
#include "marker.h"

void fortran_work(void);
int main(void) {
  run_between_markers(fortran_work);
}
