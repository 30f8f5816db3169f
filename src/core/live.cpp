// The list of the tensors that are alive.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/live.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include <isthmus/core/tensor.h>

#include "libraries.h"
#include "observer.h"
#include "symbols.h"
#include "system.h"

ISTHMUS_BEGIN

namespace detail {

inline constexpr int live_frame_count = 8;

struct LiveEntry {
    LiveEntry* next;
    Block* block;
    std::uint64_t serial;
    double since;
    const char* consumer;
    BlockWords words;
    int frame_count;
    void* frames[live_frame_count];  // behind the entry only with tracing
};

inline double monotonic_seconds() noexcept {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ISTHMUS_STATE constinit SystemMutex live_mutex;

/// The list: a hash table by the address of the block, which grows with the number of entries. While it is locked it
/// calls no other code but malloc, except to show its records.
class LiveList {
public:
    ISTHMUS_COLD void add(Block* block) noexcept {
        const bool tracing = tracing_.load();
        auto* entry =
            static_cast<LiveEntry*>(std::calloc(1, tracing ? sizeof(LiveEntry) : offsetof(LiveEntry, frames)));
        if (entry == nullptr) return;  // a tensor that is not listed is better than one that cannot be made
        entry->block = block;
        entry->since = monotonic_seconds();
        if (tracing) entry->frame_count = find_callers(entry->frames, live_frame_count);  // the first is this function
        if (auto* words = words_of_block.load()) entry->words = words(block, tracing);
        if (!insert(entry)) free_entry(entry);
    }
    bool insert(LiveEntry* entry) noexcept {
        const Lock lock;
        if (!listening_ || !make_room()) return false;  // switched off while the entry was made, or no memory
        entry->serial = ++serial_;
        push(entry);
        ++count_;
        return true;
    }
    void remove(const Block* block) noexcept {
        LiveEntry* entry = nullptr;
        {
            const Lock lock;
            LiveEntry** at = find(block);
            if (at == nullptr) return;  // made while nobody was listening, or before the list was cleared
            entry = *at;
            *at = entry->next;
            --count_;
        }
        free_entry(entry);
    }
    void set_consumer(const Block* block, const char* consumer) noexcept {
        const Lock lock;
        if (LiveEntry** at = find(block)) (*at)->consumer = consumer;
    }
    void visit(void* context, void (*show)(void*, const LiveRecord&)) const {
        const double now = monotonic_seconds();
        const Lock lock;
        for (std::size_t i = 0; i < bucket_count(); ++i)
            for (const LiveEntry* entry = buckets_[i]; entry != nullptr; entry = entry->next)
                show(context,
                     LiveRecord{entry->block, entry->serial, now - entry->since, entry->words.producer, entry->consumer,
                                entry->words.place, entry->frame_count > 0 ? entry->frames + 1 : nullptr,
                                entry->frame_count > 0 ? entry->frame_count - 1 : 0});
    }
    void listen(bool tracing) noexcept {
        // A child that is forked while another thread holds the lock would wait for it forever.
        static const bool registered = (around_forks([] { live_mutex.lock(); }, unlock, unlock), true);
        (void)registered;
        const Lock lock;
        (void)make_room();
        listening_ = true;
        tracing_.store(tracing);
    }
    void forget() noexcept {
        const Lock lock;
        listening_ = false;
        for (std::size_t i = 0; i < bucket_count(); ++i)
            while (LiveEntry* entry = buckets_[i]) {
                buckets_[i] = entry->next;
                free_entry(entry);
            }
        std::free(buckets_);
        buckets_ = nullptr;
        bits_ = 0;
        count_ = 0;
    }

private:
    static constexpr int fewest_bits = 10;
    struct Lock {
        Lock() noexcept { live_mutex.lock(); }
        ~Lock() { unlock(); }
        Lock(const Lock&) = delete;
        Lock& operator=(const Lock&) = delete;
    };
    static void unlock() { live_mutex.unlock(); }
    std::size_t bucket_count() const noexcept { return buckets_ != nullptr ? std::size_t{1} << bits_ : 0; }
    /// The upper bits of the product, since each of them depends on the whole address.
    LiveEntry*& bucket(const Block* block) const noexcept {
        const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(block));
        return buckets_[address * 0x9E3779B97F4A7C15U >> (64 - bits_)];
    }
    void push(LiveEntry* entry) noexcept {
        LiveEntry*& slot = bucket(entry->block);
        entry->next = slot;
        slot = entry;
    }
    /// As many buckets as entries, or as memory allows. False if there is none at all.
    bool make_room() noexcept {
        if (ISTHMUS_LIKELY(count_ < bucket_count())) return true;
        const int bits = buckets_ != nullptr ? bits_ + 1 : fewest_bits;
        auto** made = static_cast<LiveEntry**>(std::calloc(std::size_t{1} << bits, sizeof(LiveEntry*)));
        if (made == nullptr) return buckets_ != nullptr;
        const std::size_t before = bucket_count();
        LiveEntry** old = std::exchange(buckets_, made);
        bits_ = bits;
        for (std::size_t i = 0; i < before; ++i)
            while (LiveEntry* entry = old[i]) {
                old[i] = entry->next;
                push(entry);
            }
        std::free(old);
        return true;
    }
    static void free_entry(LiveEntry* entry) noexcept {
        std::free(entry->words.producer);
        std::free(entry->words.place);
        std::free(entry);
    }
    /// The link that points to the block's entry; NULL if it has none.
    LiveEntry** find(const Block* block) const noexcept {
        if (buckets_ == nullptr) return nullptr;
        LiveEntry** at = &bucket(block);
        while (*at != nullptr && (*at)->block != block) at = &(*at)->next;
        return *at != nullptr ? at : nullptr;
    }

    Atomic<bool> tracing_;
    bool listening_ = false;  // guarded by the lock, as is everything below
    std::uint64_t serial_ = 0;
    LiveEntry** buckets_ = nullptr;
    int bits_ = 0;
    std::size_t count_ = 0;
};

ISTHMUS_STATE LiveList live_list;
ISTHMUS_STATE constexpr Observer live_observer{
    [](Block* block) noexcept { live_list.add(block); },
    [](Block* block) noexcept { live_list.remove(block); },
    [](const Block* block, const char* consumer) noexcept { live_list.set_consumer(block, consumer); },
    [](void* context, void (*show)(void*, const LiveRecord&)) { live_list.visit(context, show); },
    [](bool tracing) noexcept { live_list.listen(tracing); },
    []() noexcept { live_list.forget(); },
};

inline LiveTensor live_tensor(const LiveRecord& record) {
    const DLTensor& t = record.block->dl;
    LiveTensor live{};
    live.serial = record.serial;
    live.data = t.data;
    live.nbytes = layout::nbytes(t, record.block->flags & flag::padded);
    live.shape.assign(t.shape, t.shape + t.ndim);
    live.dtype = t.dtype;
    live.device = t.device;
    live.read_only = (record.block->flags & flag::read_only) != 0;
    live.borrowed = (record.block->flags & unowned_flag) != 0;
    live.handles = record.block->refs.load_relaxed();
    live.producer = record.producer != nullptr ? record.producer : "C++";
    live.consumer = record.consumer != nullptr ? record.consumer : "C++";
    live.age = record.age;
    if (record.place != nullptr) live.place = record.place;
    return live;
}

}  // namespace detail

bool live_tracking() noexcept { return detail::observer.load() != nullptr; }

void live_tracking(bool on, bool tracing) noexcept {
    const detail::Observer* now = detail::observer.load();
    if (on) {
        const bool first = now == nullptr;
        if (first) now = &detail::live_observer;
        now->listen(tracing);
        if (first) detail::set_observer(now);
    } else if (now != nullptr) {
        detail::set_observer(nullptr);
        now->forget();
    }
}

std::vector<LiveTensor> live() {
    struct Out {
        std::vector<LiveTensor> tensors;
        std::vector<void*> frames;
        std::vector<int> counts;
    } out;
    const detail::Observer* now = detail::observer.load();
    if (now == nullptr) return {};
    now->visit(&out, [](void* context, const detail::LiveRecord& record) {
        auto& [tensors, frames, counts] = *static_cast<Out*>(context);
        tensors.push_back(detail::live_tensor(record));
        frames.insert(frames.end(), record.frames, record.frames + record.frame_count);
        counts.push_back(record.frame_count);
    });
    // Names are looked up afterwards: that takes the dynamic linker's lock, under which other threads may make tensors.
    const void* const* at = out.frames.data();
    detail::CodePlaces places;
    for (std::size_t i = 0; i < out.tensors.size(); at += out.counts[i++])
        out.tensors[i].cpp_place = detail::describe_frames(places, at, out.counts[i]);
    return std::move(out.tensors);
}

ISTHMUS_END
