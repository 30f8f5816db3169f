// Isthmus: cv::Mat over the same memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <isthmus/isthmus.h>

#include <opencv2/core/mat.hpp>

ISTHMUS_BEGIN

/// The meaning of the last of three dimensions for OpenCV.
enum class Channels : std::uint8_t {
    last,  ///< the channels of a pixel, as in an image [h, w, c]
    none,  ///< a dimension like the others: the Mat has one channel and as many dimensions as the tensor
};

namespace detail {

inline constexpr int mat_max_dims = 32;  // OpenCV's own limit

struct MatDepth {
    DType dtype;
    int depth;
};
inline constexpr MatDepth mat_depths[] = {
    {uint8, CV_8U},  {int8, CV_8S},     {uint16, CV_16U},  {int16, CV_16S},
    {int32, CV_32S}, {float32, CV_32F}, {float64, CV_64F}, {float16, CV_16F},
};

/// Keeps a tensor for as long as any cv::Mat shows its memory.
class MatKeeper final : public cv::MatAllocator {
public:
    /// Never destroyed: a Mat in a static variable may come after everything.
    static const MatKeeper& get() {
        static const auto* keeper = new MatKeeper;
        return *keeper;
    }
    cv::UMatData* keep(const Tensor& tensor) const {
        auto* u = new cv::UMatData(this);
        u->data = u->origdata = static_cast<uchar*>(tensor.data());
        u->size = static_cast<std::size_t>(tensor.nbytes());
        u->flags |= cv::UMatData::USER_ALLOCATED;
        u->userdata = Tensor(tensor).release_block();
        return u;
    }
    /// Whether a Mat shows a tensor's memory that is not to be written. (By the class's name: the keeper may be another
    /// extension's.)
    static bool is_read_only(const cv::Mat& mat) noexcept {
        if (mat.u == nullptr || dynamic_cast<const MatKeeper*>(mat.u->currAllocator) == nullptr) return false;
        return (static_cast<const Block*>(mat.u->userdata)->flags & flag::read_only) != 0;
    }
    // A Mat that needs other memory gets OpenCV's own.
    cv::UMatData* allocate(int dims, const int* sizes, int type, void* data, std::size_t* step, cv::AccessFlag flags,
                           cv::UMatUsageFlags usage) const override {
        return cv::Mat::getStdAllocator()->allocate(dims, sizes, type, data, step, flags, usage);
    }
    bool allocate(cv::UMatData* data, cv::AccessFlag flags, cv::UMatUsageFlags usage) const override {
        return cv::Mat::getStdAllocator()->allocate(data, flags, usage);
    }
    void deallocate(cv::UMatData* u) const override {
        if (u == nullptr) return;
        drop(static_cast<Block*>(u->userdata));
        delete u;
    }
};

inline Error mat_error(ErrorCode code, const Tensor& t, const std::string& why) {
    return Error(code, ErrorKind::value, "cannot be a cv::Mat: " + describe_tensor(t.descriptor()) + " " + why);
}

/// A Mat without reference count over the tensor's memory.
inline Result<cv::Mat> mat_header(const Tensor& t, Channels channels) {
    int depth = -1;
    for (const MatDepth& row : mat_depths)
        if (row.dtype == t.dtype()) depth = row.depth;
    if (depth < 0) return mat_error(ErrorCode::bad_dtype, t, "has a dtype that OpenCV does not know");
    if (!t.device().is_host()) return mat_error(ErrorCode::bad_device, t, "is not in memory of the host");
    const auto shape = t.shape();
    const auto strides = t.strides();
    const bool pixels = channels == Channels::last && t.ndim() == 3;
    const int dims = pixels ? 2 : t.ndim();
    if (dims < 1 || dims > mat_max_dims)
        return mat_error(
            ErrorCode::bad_layout, t,
            "has " + std::to_string(t.ndim()) + " dimensions; expected 1 to " + std::to_string(mat_max_dims));
    if (pixels && (shape[2] < 1 || shape[2] > CV_CN_MAX))
        return mat_error(ErrorCode::bad_layout, t,
                         "has " + std::to_string(shape[2]) + " channels; expected 1 to " + std::to_string(CV_CN_MAX));
    for (const std::int64_t size : shape)
        if (size > INT_MAX)
            return mat_error(ErrorCode::overflow, t, "has more elements in one dimension than an int can count");
    // OpenCV steps forward in every dimension, without gaps within a row.
    std::int64_t least = 1;
    for (int d = t.ndim() - 1; d >= 0 && t.numel() > 0; --d) {
        const auto i = static_cast<std::size_t>(d);
        const bool within_row = d == t.ndim() - 1 || (pixels && d == 1);
        if (shape[i] > 1 && (within_row ? strides[i] != least : strides[i] < least))
            return mat_error(
                ErrorCode::bad_layout, t,
                "has strides " + layout::to_string(strides) + "; expected rows without gaps, one after the other");
        if (shape[i] > 1) least = strides[i];
        least *= shape[i];
    }
    const int type = CV_MAKETYPE(depth, pixels ? static_cast<int>(shape[2]) : 1);
    int sizes[mat_max_dims] = {};
    std::size_t steps[mat_max_dims] = {};
    std::size_t step = static_cast<std::size_t>(CV_ELEM_SIZE(type));
    for (int d = dims - 1; d >= 0; --d) {
        const auto i = static_cast<std::size_t>(d);
        sizes[d] = static_cast<int>(shape[i]);
        steps[d] = shape[i] > 1 && d < dims - 1
                       ? static_cast<std::size_t>(layout::byte_stride(t.descriptor(), static_cast<int>(i)))
                       : step;
        step = steps[d] * static_cast<std::size_t>(shape[i] > 0 ? shape[i] : 1);
    }
    if (t.numel() == 0) return dims == 2 ? cv::Mat(sizes[0], sizes[1], type) : cv::Mat(dims, sizes, type);
    if (dims == 2) return cv::Mat(sizes[0], sizes[1], type, t.data(), steps[0]);
    return cv::Mat(dims, sizes, type, t.data(), steps);
}

inline Result<cv::Mat> make_mat(const Tensor& t, Channels channels) {
    return mat_header(t, channels).transform([&t](cv::Mat mat) {
        if (mat.u == nullptr && mat.data != nullptr) {
            mat.u = MatKeeper::get().keep(t);
            mat.addref();
        }
        return mat;
    });
}

}  // namespace detail

/// The tensor as a cv::Mat in place. The Mat, and every Mat that shares with it, keeps the tensor; a Mat that is made
/// anew by OpenCV (another size or type) lets it go. Read-only memory is refused, since no Mat can promise not to
/// write: see read_mat.
inline Result<cv::Mat> to_mat(const Tensor& tensor, Channels channels = Channels::last) {
    if (tensor.read_only())
        return detail::mat_error(ErrorCode::read_only, tensor,
                                 "is read-only; call read_mat() for what only reads, or clone it");
    return detail::make_mat(tensor, channels);
}

/// A cv::Mat that is not to be written: what OpenCV's functions take as an InputArray. A copy of the Mat itself forgets
/// it, until it becomes a Tensor again.
class ReadMat {
public:
    /// Of a Mat that must not be written.
    explicit ReadMat(cv::Mat mat) noexcept : mat_(std::move(mat)) {}
    /// The Mat, to be read.
    const cv::Mat& operator*() const noexcept { return mat_; }
    const cv::Mat* operator->() const noexcept { return &mat_; }
    /// The same for a function that takes a Mat or an InputArray.
    operator const cv::Mat&() const noexcept { return mat_; }
    operator cv::_InputArray() const { return mat_; }

private:
    cv::Mat mat_;
};
/// As to_mat(), also of read-only memory: for what only reads.
inline Result<ReadMat> read_mat(const Tensor& tensor, Channels channels = Channels::last) {
    return detail::make_mat(tensor, channels).transform([](cv::Mat mat) { return ReadMat(std::move(mat)); });
}

namespace detail {

inline TensorSpec describe_mat(const cv::Mat& mat) {
    DType dtype;
    bool known = false;
    for (const MatDepth& row : mat_depths)
        if (row.depth == mat.depth()) dtype = row.dtype, known = true;
    if (!known)
        throw Error(ErrorCode::bad_dtype, ErrorKind::value,
                    "a cv::Mat of depth " + std::to_string(mat.depth()) + " has no dtype");
    std::vector<std::int64_t> sizes, steps;
    const auto one = static_cast<std::int64_t>(mat.elemSize1());
    for (int d = 0; d < mat.dims; ++d) {
        sizes.push_back(mat.size[d]);
        steps.push_back(static_cast<std::int64_t>(mat.step[d]) / one);
    }
    if (mat.dims == 0) sizes = steps = {0, 0};  // cv::Mat(): no rows, no columns
    if (mat.channels() > 1) {
        sizes.push_back(mat.channels());
        steps.push_back(1);
    }
    TensorSpec spec(static_cast<void*>(mat.data), dtype, sizes);
    spec.read_only = MatKeeper::is_read_only(mat);
    return spec.set_strides(steps);
}

}  // namespace detail

/// Tensor::own(cv::Mat(mat)): shares the Mat's memory, by its own count. A Mat over memory of somebody else is refused,
/// since nothing would keep that: name the owner with from_mat(). An empty Mat, cv::Mat(), has the shape [0, 0].
template <>
struct tensor_traits<cv::Mat> {
    static TensorSpec describe(cv::Mat& mat) {
        if (mat.u == nullptr && mat.data != nullptr)
            throw Error(ErrorCode::bad_argument,
                        "this cv::Mat shows memory that it does not own; use from_mat(mat, owner), or mat.clone()");
        return detail::describe_mat(mat);
    }
};
/// The memory of a Mat that does not own it; `owner` (as for Tensor::wrap) keeps it.
template <class Owner>
Tensor from_mat(const cv::Mat& mat, Owner owner) {
    return Tensor::wrap_spec([&mat] { return detail::describe_mat(mat); }, std::move(owner));
}

ISTHMUS_END
