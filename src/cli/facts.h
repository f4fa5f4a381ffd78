// Facts as JSON, the same in every command that prints them.
#pragma once
#include <nlohmann/json.hpp>

#include "engine/context.h"
#include "recording/manifest.h"

namespace backstep::cli {

using Json = nlohmann::ordered_json;

// {"tick": 12, "pc": 4198710, "text": "@12:0x401136"}
Json point_json(const ControlPoint& point);

// Adds command, start, machine and end to a recording's object. The environment is left to the manifest
// itself.
Json end_json(const recording::Manifest::End& end);
void add_manifest(const recording::Manifest& manifest, Json& object);

}  // namespace backstep::cli
