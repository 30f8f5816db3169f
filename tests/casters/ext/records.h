// SPDX-License-Identifier: Apache-2.0
// Records, dates and fixed strings as arguments and results, for both casters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <isthmus/records.h>

namespace casters {

struct Point {
    float x, y;
    double z;
};
ISTHMUS_RECORD(Point, x, y, z);

#pragma pack(push, 1)
/// A step of 22 bytes, as a PointCloud2 has it.
struct Packed {
    float x, y, z;
    std::uint16_t ring;
    double time;
};
/// A step of 34 bytes, as a point of a LAS file has it.
struct Las {
    std::int32_t x, y, z;
    std::uint16_t intensity;
    std::uint8_t returns, flags, classification;
    std::int8_t angle;
    std::uint8_t user;
    std::uint16_t source;
    double time;
    std::array<std::uint8_t, 5> rest;
};
#pragma pack(pop)
ISTHMUS_RECORD(Packed, x, y, z, ring, time);
ISTHMUS_RECORD(Las, x, y, z, intensity, returns, flags, classification, angle, user, source, time, rest);

using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

/// A field of each kind.
struct Event {
    Time at;
    std::chrono::duration<std::int64_t, std::milli> took;
    char code[8];
    std::array<char32_t, 8> name;
    Point where;
    float matrix[2][3];
    bool good;
};
ISTHMUS_RECORD(Event, at, took, code, name, where, matrix, good);

using Hours = std::chrono::duration<std::int64_t, std::ratio<3600>>;
using Code = std::array<char, 8>;
using Name = std::array<char32_t, 8>;

inline double sum_points(const isthmus::View<const Point, 1>& points) {
    double sum = 0;
    for (const Point& point : points) sum += static_cast<double>(point.x) + static_cast<double>(point.y) + point.z;
    return sum;
}
inline std::int64_t count_grid(const isthmus::View<const Point, 2, isthmus::c_contiguous>& grid) { return grid.size(); }
inline std::int64_t count_optional(const std::optional<isthmus::View<const Point, 1>>& points) {
    return points ? points->size() : -1;
}
inline std::int64_t count_named(const isthmus::Argument<isthmus::View<const Point, 1>, "points", "count">& points) {
    return points->size();
}
inline double sum_batches(const std::vector<isthmus::View<const Point, 1>>& batches) {
    double sum = 0;
    for (const auto& batch : batches) sum += sum_points(batch);
    return sum;
}
inline void move_points(const isthmus::View<Point, 1>& points, double by) {
    for (std::int64_t i = 0; i < points.size(); ++i) points(i).z += by;
}
inline double sum_packed(const isthmus::View<const Packed, 1>& points) {
    double sum = 0;
    for (std::int64_t i = 0; i < points.size(); ++i) {
        const Packed point = points(i);
        sum += static_cast<double>(point.x) + point.ring + point.time;
    }
    return sum;
}
inline std::int64_t sum_las(const isthmus::View<const Las, 1>& points) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < points.size(); ++i) {
        const Las point = points(i);
        sum += point.x + point.source + point.rest[4];
    }
    return sum;
}
inline double first_of_field(const isthmus::View<const float, 1>& field) { return static_cast<double>(field(0)); }

inline isthmus::Records<Point> make_points(std::int64_t n) {
    std::vector<Point> points;
    for (std::int64_t i = 0; i < n; ++i)
        points.push_back({static_cast<float>(i), static_cast<float>(2 * i), static_cast<double>(3 * i)});
    return points;
}
inline isthmus::Records<Packed> make_packed(std::int64_t n) {
    std::vector<Packed> points(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < points.size(); ++i) points[i] = {1, 2, 3, static_cast<std::uint16_t>(i), 0.5};
    return {std::move(points), {1, n}};
}
inline isthmus::Records<Point> no_points() { return {}; }
inline isthmus::Records<Event> copy_events(const isthmus::View<const Event, 1>& events) {
    return std::vector<Event>(events.begin(), events.end());
}
inline isthmus::Records<Time> later(const isthmus::View<const Time, 1>& times,
                                    const isthmus::View<const Hours, 1>& hours) {
    std::vector<Time> made;
    for (std::int64_t i = 0; i < times.size(); ++i)
        made.push_back(isthmus::is_nat(times(i)) ? times(i) : times(i) + hours(i));
    return made;
}
inline isthmus::Records<std::chrono::nanoseconds> since(const isthmus::View<const Time, 1>& times) {
    std::vector<std::chrono::nanoseconds> made;
    for (const Time& time : times) made.push_back(time - times(0));
    return made;
}
inline std::string joined(const isthmus::View<const Code, 1>& codes) {
    std::string all;
    for (const Code& code : codes) all += std::string(code.data(), strnlen(code.data(), code.size())) + "|";
    return all;
}
inline isthmus::Records<Name> reversed(const isthmus::View<const Name, 1>& names) {
    std::vector<Name> made;
    for (const Name& name : names) {
        std::size_t count = 0;
        while (count < name.size() && name[count] != 0) ++count;
        Name back{};
        for (std::size_t i = 0; i < count; ++i) back[i] = name[count - 1 - i];
        made.push_back(back);
    }
    return made;
}
inline std::string which_points(const isthmus::View<const Point, 1>&) { return "Point"; }
inline std::string which_packed(const isthmus::View<const Packed, 1>&) { return "Packed"; }
inline std::string which_floats(const isthmus::View<const float, 1>&) { return "float32"; }

void bind_records(const auto& def) {
    def("sum_points", sum_points);
    def("count_grid", count_grid);
    def("count_optional", count_optional);
    def("count_named", count_named);
    def("sum_batches", sum_batches);
    def("move_points", move_points);
    def("sum_packed", sum_packed);
    def("sum_las", sum_las);
    def("first_of_field", first_of_field);
    def("make_points", make_points);
    def("make_packed", make_packed);
    def("no_points", no_points);
    def("copy_events", copy_events);
    def("later", later);
    def("since", since);
    def("joined", joined);
    def("reversed_names", reversed);
    def("which_record", which_points);
    def("which_record", which_packed);
    def("which_record", which_floats);
}

}  // namespace casters
