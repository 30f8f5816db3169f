// The observers of all shared objects that meet in one interpreter, and the bridge's notifications.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/block.h>

ISTHMUS_BEGIN

namespace detail {

/// The observer that listens, or the last one that did; NULL before the first.
ISTHMUS_STATE Atomic<const Observer*> last_observer;

/// The observers of all shared objects that meet in one interpreter: listening is switched on and off in all of them at
/// once.
struct ObserverLink {
    Atomic<const Observer*>* observer;
    Atomic<const Observer*>* last_observer;
    ObserverLink* next;
};
struct ObserverHub {
    Atomic<ObserverLink*> first;
    Atomic<const Observer*> current;
};
ISTHMUS_STATE Atomic<ObserverHub*> observer_hub;
ISTHMUS_STATE ObserverLink observer_link{&observer, &last_observer, nullptr};

/// Says whose memory a block is and where the program was, as strings to be freed with std::free. Set by the bridge.
struct BlockWords {
    char* producer;
    char* place;
};
ISTHMUS_STATE Atomic<BlockWords (*)(const Block*, bool tracing) noexcept> words_of_block;

inline void tell_link(const ObserverLink& link, const Observer* now) noexcept {
    if (now != nullptr) link.last_observer->store(now);
    link.observer->store(now);
}
/// Makes `now` the observer here and in every shared object that this one knows; NULL for none.
inline void set_observer(const Observer* now) noexcept {
    if (ObserverHub* hub = observer_hub.load()) {
        hub->current.store(now);
        for (const ObserverLink* link = hub->first.load(); link != nullptr; link = link->next) tell_link(*link, now);
    }
    tell_link(observer_link, now);
}

/// Joins the others: an observer of theirs also listens here from now on, and vice versa. Joining again changes
/// nothing. Only one thread of this shared object may call this at a time; other shared objects may join meanwhile.
inline void join_observers(ObserverHub& hub) noexcept {
    const ObserverLink* link = hub.first.load();
    while (link != nullptr && link != &observer_link) link = link->next;
    if (link == nullptr) {
        ObserverLink* first = hub.first.load();
        do observer_link.next = first;
        while (!hub.first.compare_exchange(first, &observer_link));
    }
    observer_hub.store(&hub);
    if (hub.current.load() == nullptr) {
        if (const Observer* ours = observer.load()) set_observer(ours);
        return;
    }
    const Observer* told = nullptr;
    while (const Observer* theirs = hub.current.load()) {  // another thread may switch it off during this call
        if (theirs == told) return;
        tell_link(observer_link, told = theirs);
    }
    tell_link(observer_link, nullptr);
}

}  // namespace detail

ISTHMUS_END
