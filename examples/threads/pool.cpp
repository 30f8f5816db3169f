// SPDX-License-Identifier: Apache-2.0
// Threads of C++ that take tensors from Python and hand tensors to a Python function.
#include <isthmus/pybind11.h>

#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace py = pybind11;

namespace {

using Signal = isthmus::View<const float, 1>;

/// The power of a signal at each of its n / 2 + 1 frequencies, by the definition.
isthmus::Tensor power(const Signal& signal) {
    const auto n = signal.extent(0);
    std::vector<double> result(static_cast<std::size_t>(n / 2 + 1));
    for (std::size_t k = 0; k < result.size(); ++k) {
        double re = 0, im = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            const double angle =
                -2 * 3.14159265358979323846 * double(k) * double(i) / double(n);
            re += signal(i) * std::cos(angle);
            im += signal(i) * std::sin(angle);
        }
        result[k] = re * re + im * im;
    }
    return isthmus::Tensor::own(std::move(result));
}

class Pool {
public:
    Pool(unsigned threads, py::function done) : done_(std::move(done)) {
        open_pools.insert(this);
        for (unsigned i = 0; i < threads; ++i)
            threads_.emplace_back([this] { work(); });
    }
    ~Pool() { close(); }

    /// Takes a block, which may be of any framework, and returns at once.
    void submit(std::int64_t number, isthmus::Tensor block) {
        // A block that does not fit is the caller's error, not the thread's.
        isthmus::Match match("submit");
        match.view<Signal>("block", block).value();
        const std::lock_guard lock(mutex_);
        if (closing_) throw std::runtime_error("submit(): the pool is closed");
        jobs_.push_back({number, std::move(block)});
        wake_.notify_one();
    }

    /// Returns when every block is done. Raises the first exception of the function.
    void close() {
        {
            // The threads need the GIL to finish, so do not wait with it.
            const py::gil_scoped_release waiting;
            std::vector<std::thread> threads;
            {
                const std::lock_guard lock(mutex_);
                closing_ = true;
                threads.swap(threads_);
            }
            wake_.notify_all();
            for (std::thread& thread : threads) thread.join();
        }
        open_pools.erase(this);
        // A function that knows the pool would keep it, and itself, for ever.
        done_ = {};
    }
    void close_and_raise() {
        close();
        if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
    }

    /// Before the interpreter ends: later, a thread that takes the GIL hangs.
    static void close_all() {
        while (!open_pools.empty()) (*open_pools.begin())->close();
    }

private:
    struct Job {
        std::int64_t number;
        isthmus::Tensor block;
    };

    void work() {
        while (true) {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            Job job = std::move(jobs_.front());
            jobs_.pop_front();
            lock.unlock();
            isthmus::Tensor result =
                power(job.block.view<Signal>().value());  // without the GIL
            job.block = {};                               // dropped without it, too
            hand_over(job.number, std::move(result));
        }
    }
    void hand_over(std::int64_t number, isthmus::Tensor result) {
        // From here to the end of the function this is a thread of Python's.
        const py::gil_scoped_acquire python;
        try {
            if (!failed_) done_(number, std::move(result));
        } catch (...) {  // nobody above us could take it
            failed_ = std::current_exception();
        }
    }

    // As done_ and failed_, touched with the GIL alone.
    inline static std::set<Pool*> open_pools;

    py::function done_;
    std::exception_ptr failed_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Job> jobs_;
    bool closing_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace

PYBIND11_MODULE(pool, m) {
    py::class_<Pool>(m, "Pool")
        .def(py::init<unsigned, py::function>(), py::arg("threads"), py::arg("done"))
        .def("submit", &Pool::submit, py::arg("number"), py::arg("block"))
        .def("close", &Pool::close_and_raise)
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](Pool& pool, const py::args&) { pool.close_and_raise(); });
    py::module_::import("atexit").attr("register")(py::cpp_function(&Pool::close_all));
}
