// What isthmus/opencv.h names of OpenCV, for the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#define CV_8U 0
#define CV_8S 1
#define CV_16U 2
#define CV_16S 3
#define CV_32S 4
#define CV_32F 5
#define CV_64F 6
#define CV_16F 7
namespace cv {
enum AccessFlag : int {};
enum UMatUsageFlags : int {};
struct UMatData;
struct MatAllocator {
    virtual ~MatAllocator() = default;
    virtual UMatData* allocate(int, const int*, int, void*, std::size_t*, AccessFlag, UMatUsageFlags) const = 0;
    virtual bool allocate(UMatData*, AccessFlag, UMatUsageFlags) const = 0;
    virtual void deallocate(UMatData*) const = 0;
};
struct Mat {};
struct _InputArray {};
}  // namespace cv
