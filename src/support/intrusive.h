// Reference-counted objects and the pointer that counts: one word, thread-safe count, no control block.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace thalweg {

// Base of objects held by IntrusivePtr. Starts at count 0; the last release calls T::destroy(T*), by default delete.
template <class T>
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  // References now; exact only while no other thread copies or drops one.
  uint32_t use_count() const { return count_.load(std::memory_order_acquire); }
  // The first reference of an object that no other thread knows.
  void count_first() const { count_.store(1, std::memory_order_relaxed); }
  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    // Whoever holds the only reference shares it with nobody: no need for an atomic exchange.
    if (count_.load(std::memory_order_acquire) == 1) {
      count_.store(0, std::memory_order_relaxed);
    } else if (count_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
      return;
    }
    T::destroy(const_cast<T*>(static_cast<const T*>(this)));
  }
  static void destroy(T* object) { delete object; }

 private:
  mutable std::atomic<uint32_t> count_{0};
};

// Owns one reference to a Counted object, or null.
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  IntrusivePtr(std::nullptr_t) {}
  explicit IntrusivePtr(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  IntrusivePtr(const IntrusivePtr& other) : IntrusivePtr(other.object_) {}
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  // Takes over `object`, which nobody references yet: as the constructor, without an atomic exchange.
  static IntrusivePtr adopt_new(T* object) {
    object->count_first();
    IntrusivePtr pointer;
    pointer.object_ = object;
    return pointer;
  }
  ~IntrusivePtr() {
    if (object_) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const IntrusivePtr&) const = default;
  void reset() { *this = IntrusivePtr(); }

 private:
  T* object_ = nullptr;
};

}  // namespace thalweg
