// Extended attributes, where the file system has user attributes; the errors are as good a test where not.
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  int fd = open("attributed", O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0);
  char value[256];
  int set = setxattr("attributed", "user.colour", "green and long", 14, 0);
  printf("set %d errno %d\n", set, set ? errno : 0);
  if (set == 0) {
    CHECK(fsetxattr(fd, "user.empty", "", 0, XATTR_CREATE) == 0 &&
          fsetxattr(fd, "user.empty", "", 0, XATTR_CREATE) == -1);
    CHECK(getxattr("attributed", "user.colour", value, sizeof value) == 14 &&
          memcmp(value, "green and", 9) == 0);
    CHECK(getxattr("attributed", "user.colour", 0, 0) == 14 &&
          getxattr("attributed", "user.colour", value, 3) == -1 && errno == ERANGE);
    long n = flistxattr(fd, value, sizeof value);
    CHECK(n >= 12 + 11);
    for (char* at = value; at < value + n; at += strlen(at) + 1) printf("attribute %s\n", at);
    CHECK(removexattr("attributed", "user.colour") == 0);
  }
  CHECK(getxattr("attributed", "user.colour", value, sizeof value) == -1);
  CHECK(unlink("attributed") == 0);
  printf("xattr right\n");
}
