// The macros that programs have before they include Isthmus, as the headers of their systems and libraries define them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Qt, without QT_NO_KEYWORDS
#define signals public
#define slots
#define emit
#define foreach Q_FOREACH
#define forever for (;;)
#define Q_FOREVER for (;;)
#define Q_FOREACH(variable, container) for (variable : container)

// X11/X.h, X11/Xlib.h, X11/Xutil.h
#define None 0L
#define Bool int
#define Status int
#define True 1
#define False 0
#define Success 0
#define Always 2
#define NotUseful 0
#define WhenMapped 1
#define Unsorted 0
#define Complex 0
#define Convex 2
#define Above 0
#define Below 1
#define Opposite 4
#define CursorShape 0
#define KeyPress 2
#define KeyRelease 3
#define FocusIn 9
#define FocusOut 10
#define Expose 12
#define ParentRelative 1L
#define CurrentTime 0L
#define NoSymbol 0L
#define GrayScale 1
#define TrueColor 4

// windows.h; without NOMINMAX it has min and max
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define near
#define far
#define small char
#define hyper long long
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define VOID void
#define CONST const
#define TRUE 1
#define FALSE 0
#define STRICT 1
#define CALLBACK
#define WINAPI
#define PASCAL
#define ERROR 0
#define NO_ERROR 0L
#define DELETE (0x00010000L)
#define IGNORE 0
#define INFINITE 0xFFFFFFFF
#define ABSOLUTE 1
#define RELATIVE 2
#define TRANSPARENT 1
#define OPAQUE 2
#define DIFFERENCE 11
#define THIS void
#define PURE = 0
#define RGB(r, g, b) ((r) | ((g) << 8) | ((b) << 16))
#define Yield()
#define GetObject GetObjectA
#define GetMessage GetMessageA
#define CreateFile CreateFileA
#define LoadLibrary LoadLibraryA
#define FreeModule(library) FreeLibrary((library))

// The names that math.h has for matherr(), on Windows too
#define DOMAIN 1
#define SING 2
#define OVERFLOW 3
#define UNDERFLOW 4

// The C library: sys/sysmacros.h, sys/param.h, complex.h, and what GCC defines with -std=gnu++20
#define major(device) gnu_dev_major(device)
#define minor(device) gnu_dev_minor(device)
#define makedev(major_number, minor_number) gnu_dev_makedev(major_number, minor_number)
#define MIN(a, b) (((a) < (b)) ? (a) : (b))
#define MAX(a, b) (((a) > (b)) ? (a) : (b))
#define roundup(x, y) ((((x) + ((y) - 1)) / (y)) * (y))
#define howmany(x, y) (((x) + ((y) - 1)) / (y))
#define isset(a, i) ((a)[(i) / 8] & (1 << ((i) % 8)))
#define I _Complex_I
#undef linux
#define linux 1
#undef unix
#define unix 1

// glog, Abseil, c10/util/Logging.h
#define CHECK(condition) std::cerr << (condition)
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define DCHECK(condition) CHECK(condition)
#define LOG(severity) std::cerr << #severity
#define VLOG(level) std::cerr << (level)

// Arduino.h and binary.h, which ROS's headers take in on microcontrollers; termios.h has B0 too
#define B0 0
#define B1 1
#define PI 3.1415926535897932384626433832795
#define HIGH 0x1
#define LOW 0x0
#define INPUT 0x0
#define OUTPUT 0x1
#define DEFAULT 1
#define EXTERNAL 0
#define F(text) (reinterpret_cast<const FlashText*>(text))
#define abs(x) ((x) > 0 ? (x) : -(x))
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x) - 0.5))
#define sq(x) ((x) * (x))
#define bit(b) (1UL << (b))
#define constrain(value, low, high) ((value) < (low) ? (low) : ((value) > (high) ? (high) : (value)))

// curses.h, without those that NCURSES_NOMACROS leaves out
#define OK (0)
#define ERR (-1)

// Apple: AssertMacros.h and objc/objc.h; Unreal Engine has check and verify too
#define check(assertion) ((void)(assertion))
#define verify(assertion) ((void)(assertion))
#define require(assertion, label) ((assertion) ? (void)0 : label())
#define nil 0
#define YES 1
#define NO 0
