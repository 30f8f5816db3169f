// The names of dtypes and devices, written and read.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/device.h>
#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

namespace detail {

static void append_name(TextBuffer& out, DType dtype) noexcept {
    const int bits = dtype.bit_count;
    if (dtype.code >= dtype_code_count) {
        for (const Piece& piece : {Piece("code"), Piece(dtype.code), Piece("_bits"), Piece(bits)}) piece.append_to(out);
    } else {
        const auto& row = dtype_codes[dtype.code];
        out += row.name;
        const bool plain_bool = dtype.code == kDLBool && bits == 8;
        if (row.fixed_bits != 0 && row.fixed_bits != bits) out += "_bits";
        if (row.fixed_bits == 0 ? !plain_bool : row.fixed_bits != bits) Piece(bits).append_to(out);
    }
    if (dtype.lane_count == 1) return;
    out += 'x';
    Piece(dtype.lane_count).append_to(out);
}

ISTHMUS_RARE Piece::Piece(DType dtype) noexcept
    : Piece([](TextBuffer& out, const void*,
               Number v) noexcept { append_name(out, DType(int(v & 255), int(v >> 8 & 255), int(v >> 16))); },
            nullptr, Number{dtype.code} | Number{dtype.bit_count} << 8 | Number{dtype.lane_count} << 16) {}

/// Takes a number without leading zeros off the front of `text`: -1 when there is none, or when it is above `most`.
static int take_number(std::string_view& text, int most) noexcept {
    if (text.empty() || text.front() == '0') return -1;
    int value = 0;
    std::size_t used = 0;
    for (; used < text.size() && text[used] >= '0' && text[used] <= '9'; ++used) {
        value = 10 * value + (text[used] - '0');
        if (value > most) return -1;
    }
    text.remove_prefix(used);
    return used != 0 ? value : -1;
}

}  // namespace detail

// Read from the front, code before width before lanes: "complex64" contains an x, too.
ISTHMUS_RARE bool DType::parse(std::string_view name, DType& out) noexcept {
    for (int code = 0; code < detail::dtype_code_count; ++code) {
        const auto& row = detail::dtype_codes[code];
        if (name.substr(0, row.name.size()) != row.name) continue;
        std::string_view rest = name.substr(row.name.size());
        int bits = row.fixed_bits, lanes = 1;
        if (code == kDLBool && (rest.empty() || rest.front() == 'x'))
            bits = 8;
        else if (bits == 0)
            bits = detail::take_number(rest, 255);
        if (bits < 0) continue;
        if (!rest.empty()) {
            if (rest.front() != 'x') continue;
            rest.remove_prefix(1);
            lanes = detail::take_number(rest, 65535);
            if (lanes < 0 || !rest.empty()) continue;
        }
        const DType found{code, bits, lanes};
        if (!found.is_valid()) continue;
        out = found;
        return true;
    }
    return false;
}

namespace detail {

static void append_type_name(TextBuffer& out, int type) noexcept {
    const std::string_view known = device_type_name(type);
    if (!known.empty()) {
        out += known;
        return;
    }
    for (const Piece& piece : {Piece("device<"), Piece(type), Piece(">")}) piece.append_to(out);
}

ISTHMUS_RARE Piece::Piece(Device device) noexcept
    : Piece(
          [](TextBuffer& out, const void*, Number v) noexcept {
              const int type = static_cast<int>(v >> 32), id = static_cast<int>(v & 0xFFFFFFFF);
              append_type_name(out, type);
              if (type == kDLCPU && id == 0) return;
              out += ':';
              Piece(id).append_to(out);
          },
          nullptr, Number{static_cast<std::uint32_t>(device.type)} << 32 | static_cast<std::uint32_t>(device.id)) {}

}  // namespace detail

namespace detail {

ISTHMUS_RARE Piece name_of_device_type(int type) noexcept {
    return {[](TextBuffer& out, const void*, Piece::Number v) noexcept { append_type_name(out, static_cast<int>(v)); },
            nullptr, static_cast<std::uint32_t>(type)};
}

}  // namespace detail

ISTHMUS_RARE std::string DType::name() const { return detail::concat({*this}); }
ISTHMUS_RARE std::string Device::name() const { return detail::concat({*this}); }
ISTHMUS_RARE std::string Device::type_name() const {
    detail::TextBuffer text;
    detail::append_type_name(text, type);
    return text.str();
}

ISTHMUS_RARE bool Device::parse(std::string_view name, Device& out) noexcept {
    int id = 0;
    if (const auto colon = name.find(':'); colon != std::string_view::npos) {
        const auto digits = name.substr(colon + 1);
        if (digits.empty()) return false;
        for (char c : digits) {
            if (c < '0' || c > '9' || id > (INT32_MAX - (c - '0')) / 10) return false;
            id = 10 * id + (c - '0');
        }
        name = name.substr(0, colon);
    }
    for (const auto& row : detail::device_types)
        if (row.name == name) {
            out = Device{row.type, id};
            return true;
        }
    return false;
}

ISTHMUS_END
