# find_package(backstep), then target_link_libraries(... backstep::backstep).
include(${CMAKE_CURRENT_LIST_DIR}/backstepTargets.cmake)
