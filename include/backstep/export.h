// What of libbackstep can be seen from outside.
#pragma once

#define BACKSTEP_API __attribute__((visibility("default")))
