// The code of {fmt}, as part of our own program: Debian has it as a shared library only, and every process
// that is recorded would have to load that, and the C++ library for it.
#include <fmt/format-inl.h>

template std::locale fmt::detail::locale_ref::get<std::locale>() const;
template auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl<char>(locale_ref) -> char;
