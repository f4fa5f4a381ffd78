// The folder of a recording, when not all of its processes may do the same.
//
// A program that root starts often becomes somebody else before it does its work: servers, `su`, the entry
// points of containers. The processes that it makes then must still write into the recording. So, while the
// program has the rights to do that, the user that it is about to become is let in, by name (POSIX ACLs), and
// nobody else is; nor can that user read the logs of those who were there before. And as that user may not be
// able to search the folders on the way (/root), or the way may end at a new root (chroot), the folder is
// kept open: its files are named /proc/self/fd/N/… from then on.
#pragma once
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace backstep::recording {

// A path as the *at() calls take it. One below a descriptor (/proc/self/fd/N/…) is taken apart, so that it
// leads there without a /proc, too.
struct Place {
  explicit Place(const std::string& path);
  int folder;
  std::string name;
};

std::string path_of_fd(int fd);  // /proc/self/fd/N

int open_file(const std::string& path, int flags);
bool remove_file(const std::string& path);
int move_file(const std::string& from, const std::string& to);  // as rename

// Opens a file, making it if need be, whatever the program's umask is: for whoever makes it, and the
// recording's owner.
int make_file(const std::string& path, int flags, mode_t mode = 0600);
// … for all who were let into its folder.
int make_shared_file(const std::string& path, int flags, mode_t mode = 0600);
// Likewise a folder; true also if it is there already.
bool make_shared_folder(const std::string& path);

// Bytes of the files in a folder; 0: there is none.
uint64_t folder_size(const std::string& path);
// Removes it with all that is in it; bytes freed. Throws Error.
uint64_t remove_folder(const std::string& path);

// May this process, with the rights it has now, make files in it?
bool may_write(const std::string& folder);

// Lets a user make files in a recording's folder, and use the shared ones. On a file system without ACLs
// these are given to the user, if they were not given to another one before. False: it cannot be done.
bool let_in(const std::string& folder, uid_t user);
// … and use this file, too.
void let_use(const std::string& file, uid_t user);

}  // namespace backstep::recording
