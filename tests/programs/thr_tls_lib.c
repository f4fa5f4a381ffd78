// A library with thread-local variables, loaded by thr_tls after its threads have started.
__thread long lib_counter = 100;
__thread char lib_block[5000] = "block";
long lib_next(void) { return ++lib_counter; }
char* lib_text(void) { return lib_block; }
